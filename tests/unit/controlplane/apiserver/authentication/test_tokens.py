"""Static tokens, bootstrap tokens and the union of authenticators."""

import base64
from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.apiserver.authentication.anonymous import Anonymous
from controlplane.apiserver.authentication.bootstrap_token import BootstrapTokens
from controlplane.apiserver.authentication.interface import AuthenticationFailed, Credentials, UserInfo
from controlplane.apiserver.authentication.static_token import StaticTokens
from controlplane.apiserver.authentication.union import Authenticated, FirstThen, UnionAuthenticator

LINES = ["# who may", 'abc,admin,1,"system:masters, ops"', "def, bob, 2", ""]


async def test_tokens_name_users_and_groups() -> None:
    tokens = StaticTokens.parse(LINES)
    assert await tokens.authenticate(Credentials(bearer_token="abc")) == UserInfo("admin", "1", ("system:masters", "ops"))
    assert await tokens.authenticate(Credentials(bearer_token="def")) == UserInfo("bob", "2")
    assert await tokens.authenticate(Credentials(bearer_token="ab")) is None
    assert await tokens.authenticate(Credentials()) is None


@pytest.mark.parametrize("line", ["abc", "abc,admin", ",admin,1", "abc,,1"])
def test_bad_lines_are_named_without_their_token(line: str) -> None:
    with pytest.raises(ValueError, match="line 1") as problem:
        StaticTokens.parse([line])
    assert "abc" not in str(problem.value)


def secret(**changes: str) -> dict[str, Any]:
    data = {"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true", **changes}
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {"metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.kubernetes.io/token", "data": encoded}


@pytest.mark.parametrize(
    ("stored", "known"),
    [
        pytest.param(secret(), True, id="good"),
        pytest.param(secret(expiration="2030-01-01T00:00:00Z"), True, id="not-expired"),
        pytest.param(secret(expiration="2020-01-01T00:00:00Z"), False, id="expired"),
        pytest.param(secret(expiration="soon"), False, id="unreadable-date"),
        pytest.param(secret(**{"token-secret": "another-secret-x"}), False, id="other-secret"),
        pytest.param(secret(**{"usage-bootstrap-authentication": "false"}), False, id="not-for-this"),
        pytest.param(None, False, id="none"),
    ],
)
async def test_bootstrap_tokens(stored: dict[str, Any] | None, known: bool) -> None:
    async def lookup(resource: str, namespace: str, name: str) -> dict[str, Any] | None:
        assert (resource, namespace, name) == ("secrets", "kube-system", "bootstrap-token-abcdef")
        return stored

    tokens = BootstrapTokens(lookup, lambda: datetime(2026, 1, 1, tzinfo=UTC))
    user = await tokens.authenticate(Credentials(bearer_token="abcdef.0123456789abcdef"))
    assert user == (UserInfo("system:bootstrap:abcdef", groups=("system:bootstrappers",)) if known else None)
    assert await tokens.authenticate(Credentials(bearer_token="not-such-a-token")) is None


class Broken:
    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        raise AuthenticationFailed("expired")


async def test_a_good_credential_outweighs_a_bad_one() -> None:
    union = Authenticated(UnionAuthenticator([Broken(), StaticTokens.parse(LINES)]))
    user = await union.authenticate(Credentials(bearer_token="def"))
    assert user is not None
    assert user.groups == ("system:authenticated",)
    with pytest.raises(AuthenticationFailed, match="expired"):
        await union.authenticate(Credentials(bearer_token="unknown"))


async def test_only_a_request_without_credentials_is_anonymous() -> None:
    everything = FirstThen(StaticTokens.parse(LINES), Anonymous())
    user = await everything.authenticate(Credentials())
    assert user is not None
    assert user.name == "system:anonymous"
    with pytest.raises(AuthenticationFailed):
        await everything.authenticate(Credentials(bearer_token="unknown"))

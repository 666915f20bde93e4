"""Bootstrap tokens as Secrets and back, and kubeadm's words for wrong ones."""

import re
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from click.testing import CliRunner

from bootstrap import tokens
from bootstrap.tokens import DEFAULT_GROUP, Token
from cli.__main__ import cli
from cli.token import _bootstrap_kubeconfig, _row
from controlplane.apiserver.authentication.bootstrap_token import BootstrapTokens
from controlplane.apiserver.authentication.interface import Credentials

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_generated_tokens_have_the_form_and_differ() -> None:
    made = {tokens.generate() for _ in range(50)}
    assert len(made) == 50
    assert all(re.fullmatch(r"[a-z0-9]{6}\.[a-z0-9]{16}", one) for one in made)


@pytest.mark.parametrize(
    "token",
    [
        Token("abcdef", "0123456789abcdef"),
        Token("abcdef", "0123456789abcdef", NOW, ("authentication",), "mine", (DEFAULT_GROUP, "system:bootstrappers:x")),
    ],
)
def test_a_token_survives_its_secret(token: Token) -> None:
    secret = tokens.to_secret(token)
    assert (secret["metadata"]["name"], secret["type"]) == ("bootstrap-token-abcdef", "bootstrap.kubernetes.io/token")
    found = tokens.from_secret(secret)
    assert found is not None
    assert sorted(found.usages) == sorted(token.usages)
    assert (found.expires, found.description, found.groups) == (token.expires, token.description, token.groups)


async def test_the_api_server_believes_what_is_made() -> None:
    made = Token("abcdef", "0123456789abcdef", NOW + timedelta(hours=1), groups=(DEFAULT_GROUP,))

    async def lookup(resource: str, namespace: str, name: str) -> dict | None:  # type: ignore[type-arg]
        return tokens.to_secret(made) if (namespace, name) == ("kube-system", "bootstrap-token-abcdef") else None

    def asks(token: str) -> Credentials:
        return Credentials(None, token, {}, {})

    user = await BootstrapTokens(lookup, lambda: NOW).authenticate(asks(str(made)))
    assert user is not None
    assert user.groups == ("system:bootstrappers", DEFAULT_GROUP)
    assert await BootstrapTokens(lookup, lambda: NOW + timedelta(hours=2)).authenticate(asks(str(made))) is None
    assert await BootstrapTokens(lookup, lambda: NOW).authenticate(asks("abcdef.xxxxxxxxxxxxxxxx")) is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["create", "short"], r"the bootstrap token was not of the form"),
        (
            ["create", "--usages=sleeping"],
            "invalid bootstrap token usage string: sleeping, valid usages are: signing, authentication",
        ),
        (["create", "--groups=system:masters"], 'bootstrap group "system:masters" is invalid'),
        (["delete", "NOPE"], "a token ID must have the form"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_done(arguments: list[str], words: str) -> None:
    done = CliRunner().invoke(cli, ["token", *arguments, "--data-dir", "/nonexistent"])
    assert done.exit_code == 1
    assert words in done.output


def test_no_message_shows_a_token() -> None:
    with pytest.raises(ValueError, match="was not of the form") as caught:
        tokens.parse("abcdef.0123456789ABCDEF")
    assert "0123456789" not in str(caught.value)
    assert "0123456789abcdef" not in repr(Token("abcdef", "0123456789abcdef"))


def test_rows_are_kubeadms() -> None:
    assert _row(Token("abcdef", "0123456789abcdef", usages=("authentication",)), NOW) == (
        "abcdef.0123456789abcdef",
        "<forever>",
        "<never>",
        "authentication",
        "<none>",
        "<none>",
    )
    assert _row(Token("abcdef", "0123456789abcdef", NOW + timedelta(hours=23, minutes=59)), NOW)[1:3] == (
        "23h",
        "2026-12-01T11:59:00Z",
    )


def test_the_kubeconfig_holds_the_token_and_the_authority(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from client.kubeconfig import build, from_dict, save

    save(build("https://192.0.2.1:6443", ca=b"-----CA-----", token="admin"), tmp_path / "admin")
    made = from_dict(yaml.safe_load(_bootstrap_kubeconfig(tmp_path / "admin", "abcdef.0123456789abcdef")))
    assert (made.server, made.ca_data, made.token) == ("https://192.0.2.1:6443", b"-----CA-----", "abcdef.0123456789abcdef")

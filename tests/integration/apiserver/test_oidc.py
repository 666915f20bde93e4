"""ID tokens of an OpenID provider over TLS: who they make, which are refused, and keys that change."""

import base64
import hashlib
import hmac
import json
import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jwt
import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from component import tls, x509
from component.reloads import hash_of
from controlplane.apiserver.authentication.interface import AuthenticationFailed, Credentials
from controlplane.apiserver.authentication.issuers import Issuer, default_prefix
from controlplane.apiserver.authentication.oidc import IDTokens
from tests.support.apiserver import prepare, running_apiserver

WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
BODY = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


@dataclass
class Provider:
    authority: str
    url: str = ""
    keys: dict[str, rsa.RSAPrivateKey] = field(default_factory=dict)
    asked: int = 0

    def rotate(self, name: str) -> None:
        self.keys = {name: rsa.generate_private_key(65537, 2048)}

    def token(self, key: str = "one", **claims: Any) -> str:
        signer = self.keys.get(key) or rsa.generate_private_key(65537, 2048)
        base = {"iss": self.url, "aud": "kubernetes", "sub": "jane", "exp": time.time() + 60, "groups": ["dev"]}
        return jwt.encode({**base, **claims}, signer, "RS256", {"kid": key})

    async def discovery(self, request: web.Request) -> web.Response:
        self.asked += 1
        return web.json_response({"issuer": self.url, "jwks_uri": f"{self.url}/keys"})

    async def told(self, request: web.Request) -> web.Response:
        """Groups that are not in the token itself, for whoever shows the access token."""
        if request.headers.get("Authorization") != "Bearer access":
            return web.Response(status=401)
        return web.Response(text=self.token(groups=["far", "away"]), content_type="application/jwt")

    async def listed(self, request: web.Request) -> web.Response:
        keys = [{**RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": name} for name, key in self.keys.items()]
        return web.json_response({"keys": keys})


@pytest.fixture
async def provider(tmp_path: Path) -> AsyncIterator[Provider]:
    _, ca = prepare(tmp_path, "memory")
    x509.issue(ca, x509.Request("provider", ip_addresses=("127.0.0.1",))).save(tmp_path / "p.crt", tmp_path / "p.key")
    made = Provider((tmp_path / "ca.crt").read_text())
    made.rotate("one")
    app = web.Application()
    app.router.add_get("/.well-known/openid-configuration", made.discovery)
    app.router.add_get("/keys", made.listed)
    app.router.add_get("/groups", made.told)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls.server_context(tmp_path / "p.crt", tmp_path / "p.key"))
    await site.start()
    assert site._server is not None
    made.url = f"https://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[attr-defined]
    yield made
    await runner.cleanup()


async def test_tokens(tmp_path: Path, provider: Provider) -> None:
    config, _ = prepare(tmp_path, "memory")
    issuer = Issuer(
        provider.url, ("kubernetes",), username_prefix="oidc:", groups_claim="groups", groups_prefix="oidc:",
        required={"tenant": "a"}, authority=provider.authority,
    )  # fmt: skip
    identity = replace(config.identity, jwt_issuers=(issuer,))
    async with running_apiserver(directory=tmp_path, identity=identity) as server:

        async def who(token: str) -> Any:
            answer = await server.request("POST", WHO, BODY, token=token)
            return answer.json["status"]["userInfo"] if answer.status == 201 else answer.status

        good = await who(provider.token(tenant="a"))
        assert good == {"username": "oidc:jane", "groups": ["oidc:dev", "system:authenticated"]}
        refused = {
            "tenant": provider.token(),
            "expired": provider.token(tenant="a", exp=time.time() - 5),
            "audience": provider.token(tenant="a", aud="other"),
            "nobody": provider.token(tenant="a", sub=""),
            "groups": provider.token(tenant="a", groups=[1]),
            "another key": provider.token("two", tenant="a"),
            "unsigned": jwt.encode({"iss": provider.url, "sub": "jane", "aud": "kubernetes"}, "", "none"),
            "another issuer": provider.token(tenant="a", iss="https://other"),
        }
        for what, token in refused.items():
            assert await who(token) == 401, what
        public = json.dumps(RSAAlgorithm.to_jwk(provider.keys["one"].public_key(), as_dict=True))
        head, body = (
            '{"alg":"HS256","kid":"one"}',
            json.dumps({"iss": provider.url, "aud": "kubernetes", "sub": "x", "exp": 9e9}),
        )
        text = b".".join(base64.urlsafe_b64encode(part.encode()).rstrip(b"=") for part in (head, body))
        forged = text + b"." + base64.urlsafe_b64encode(hmac.digest(public.encode(), text, hashlib.sha256)).rstrip(b"=")
        assert await who(forged.decode()) == 401
        assert provider.asked == 1  # unknown keys make nobody ask again at once
        metrics = (await server.request("GET", "/metrics")).body.decode()
    prefix = "apiserver_authentication_jwt_authenticator_"
    known = f'jwt_issuer_hash="{hash_of(provider.url.encode())}"'
    assert f'{prefix}latency_seconds_count{{{known},result="success"}} 1.0' in metrics
    assert f'{prefix}latency_seconds_count{{{known},result="failure"}} 8.0' in metrics
    assert re.search(
        f'{prefix}jwks_fetch_last_timestamp_seconds{{apiserver_id_hash="[^"]+",{known},result="success"}} 1', metrics
    )
    assert re.search(f'{prefix}jwks_fetch_last_key_set_info{{apiserver_id_hash="[^"]+",hash="[^"]+",{known}}} 1.0', metrics)


async def test_new_keys_are_found_and_a_silent_provider_is_not_asked_too_often() -> None:
    now, asked, key = [0.0], list[str](), rsa.generate_private_key(65537, 2048)

    async def fetch(url: str) -> Any:
        asked.append(url)
        if now[0] < 20:
            raise OSError("away")
        if url.endswith("/keys"):
            return {"keys": [{**RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": "k"}, {"kty": "oct", "k": "AA"}]}
        return {"issuer": "https://p", "jwks_uri": "https://p/keys"}

    tokens = IDTokens(Issuer("https://p", ("a",)), fetch, lambda: now[0])
    claims = {"iss": "https://p", "aud": ["a"], "sub": "jane", "exp": time.time() + 60}
    credentials = Credentials(bearer_token=jwt.encode(claims, key, "RS256", {"kid": "k"}))
    for moment, looks in ((0.0, 1), (5.0, 1), (11.0, 2)):
        now[0] = moment
        with pytest.raises(AuthenticationFailed, match="no key of the issuer"):
            await tokens.authenticate(credentials)
        assert len(asked) == looks
    now[0] = 22.0
    user = await tokens.authenticate(credentials)
    assert user is not None
    assert user.name == "jane"
    assert len(asked) == 4


def test_prefixes_as_the_flags_have_them() -> None:
    assert default_prefix("https://p", "sub", "") == "https://p#"
    assert default_prefix("https://p", "email", "") == ""
    assert default_prefix("https://p", "sub", "-") == ""


async def test_groups_that_another_server_tells(provider: Provider) -> None:
    issuer = Issuer(provider.url, ("kubernetes",), groups_claim="groups", authority=provider.authority)
    tokens = IDTokens(issuer)

    def elsewhere(**source: str) -> Credentials:
        names = {"_claim_names": {"groups": "src"}, "_claim_sources": {"src": source}}
        base = {"iss": provider.url, "aud": "kubernetes", "sub": "jane", "exp": time.time() + 60, **names}
        return Credentials(bearer_token=jwt.encode(base, provider.keys["one"], "RS256", {"kid": "one"}))

    user = await tokens.authenticate(elsewhere(endpoint=f"{provider.url}/groups", access_token="access"))
    assert user is not None
    assert user.groups == ("far", "away")
    for source in (
        {"endpoint": f"{provider.url}/groups", "access_token": "wrong"},
        {"endpoint": f"{provider.url}/keys"},
        {"endpoint": "http://127.0.0.1:1/groups"},
    ):
        with pytest.raises(AuthenticationFailed, match="distributed claim"):
            await tokens.authenticate(elsewhere(**source))
    aggregated = await tokens.authenticate(elsewhere(JWT="x.y.z"))
    assert aggregated is not None
    assert aggregated.groups == ()

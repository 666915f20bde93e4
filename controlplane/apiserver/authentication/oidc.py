"""ID tokens of OpenID providers: their keys are fetched when a token names one that is not known, and then kept.

A provider that cannot be reached costs its own users their entry and nobody else anything.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from component import logs
from controlplane.apiserver.authentication.interface import AuthenticationFailed, Credentials, UserInfo
from controlplane.apiserver.authentication.issuers import Issuer

Fetch = Callable[[str], Awaitable[Any]]
"""``await fetch(url)``: the JSON there. Raises OSError, TimeoutError or ValueError."""

_log = logs.get(__name__)
_AGAIN_SECONDS = 10.0  # between two looks for keys: made-up key ids must not hammer the provider
_MOST_BYTES = 1 << 20
_WAIT_SECONDS = 10.0


class IDTokens:
    def __init__(self, issuer: Issuer, fetch: Fetch | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._issuer, self._clock = issuer, clock
        self._fetch = fetch or fetcher(issuer.authority)
        self._keys: dict[str, Any] = {}
        self._looked = -_AGAIN_SECONDS
        self._looking = asyncio.Lock()

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        """None for a token that names another issuer."""
        import jwt

        token = credentials.bearer_token
        if token is None or token.count(".") != 2:
            return None
        try:
            header = jwt.get_unverified_header(token)
            claimed = jwt.decode(token, options={"verify_signature": False})
        except jwt.InvalidTokenError:
            return None
        if claimed.get("iss") != self._issuer.url:
            return None
        return self._user(await self._verified(token, str(header.get("kid") or "")))

    async def _verified(self, token: str, key_id: str) -> dict[str, Any]:
        import jwt

        key = await self._key(key_id)
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key.key,
                algorithms=list(self._issuer.algorithms),
                audience=list(self._issuer.audiences),
                issuer=self._issuer.url,
                options={"require": ["exp", "iss", "aud"]},
            )
        except jwt.ExpiredSignatureError:
            raise AuthenticationFailed("oidc: token has expired") from None
        except jwt.InvalidAudienceError:
            raise AuthenticationFailed("oidc: token is for another audience") from None
        except (jwt.InvalidTokenError, TypeError):  # TypeError: an algorithm of another family than the key
            raise AuthenticationFailed("oidc: token does not verify") from None
        return claims

    async def _key(self, key_id: str) -> Any:
        if key_id not in self._keys:
            async with self._looking:
                if key_id not in self._keys and self._clock() - self._looked >= _AGAIN_SECONDS:
                    self._looked = self._clock()
                    await self._load()
        if key_id not in self._keys:
            raise AuthenticationFailed("oidc: no key of the issuer verifies the token")
        return self._keys[key_id]

    async def _load(self) -> None:
        import jwt

        try:
            config = await self._fetch(self._issuer.discovery_url)
            if config.get("issuer") != self._issuer.url:
                raise ValueError("the provider names another issuer")
            listed = (await self._fetch(str(config.get("jwks_uri")))).get("keys") or []
        except (OSError, TimeoutError, ValueError, AttributeError) as problem:
            _log.warning("The keys of an OpenID provider cannot be read", issuer=self._issuer.url, err=problem)
            return
        found = {}
        for each in listed:
            try:
                if each.get("use", "sig") == "sig" and each.get("kty") in ("RSA", "EC"):  # never a shared secret
                    found[str(each.get("kid") or "")] = jwt.PyJWK(each, each.get("alg"))
            except (jwt.PyJWTError, AttributeError, TypeError):
                continue
        self._keys = found

    def _user(self, claims: dict[str, Any]) -> UserInfo:
        issuer = self._issuer
        for claim, wanted in issuer.required.items():
            if claims.get(claim) != wanted:
                raise AuthenticationFailed(f"oidc: claim {claim!r} has not the required value")
        name = claims.get(issuer.username_claim)
        if not isinstance(name, str) or not name:
            raise AuthenticationFailed(f"oidc: claim {issuer.username_claim!r} is missing or no text")
        if issuer.username_claim == "email" and claims.get("email_verified", True) is not True:
            raise AuthenticationFailed("oidc: email not verified")
        groups = claims.get(issuer.groups_claim) if issuer.groups_claim else None
        listed = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
        if any(not isinstance(each, str) for each in listed):
            raise AuthenticationFailed(f"oidc: claim {issuer.groups_claim!r} is no list of texts")
        uid: Any = claims.get(issuer.uid_claim) if issuer.uid_claim else ""
        members = tuple(issuer.groups_prefix + each for each in listed if each)
        return UserInfo(issuer.username_prefix + name, uid if isinstance(uid, str) else "", members)


def fetcher(authority: str) -> Fetch:
    """Over TLS, with a bound on size and time; redirects are not followed."""

    async def fetch(url: str) -> Any:
        import aiohttp
        import orjson

        from component.tls import client_context

        if not url.startswith("https://"):
            raise ValueError(f"{url!r} is no https URL")
        limit = aiohttp.ClientTimeout(total=_WAIT_SECONDS)
        connector = aiohttp.TCPConnector(ssl=client_context(ca_data=authority or None))
        try:
            async with (
                aiohttp.ClientSession(connector=connector, timeout=limit) as session,
                session.get(url, allow_redirects=False) as answer,
            ):
                if answer.status != 200:
                    raise ValueError(f"{url} answers {answer.status}")
                data = bytearray()
                async for piece in answer.content.iter_any():
                    data += piece
                    if len(data) > _MOST_BYTES:
                        raise ValueError(f"{url} answers more than {_MOST_BYTES} bytes")
                return orjson.loads(data)
        except aiohttp.ClientError as problem:
            raise OSError(str(problem)) from None

    return fetch

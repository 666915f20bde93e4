"""ID tokens of OpenID providers: their keys are fetched when a token names one that is not known, and then kept.

A provider that cannot be reached costs its own users their entry and nobody else anything.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from apimachinery.codecs import json
from component import logs
from controlplane.apiserver import call_answers
from controlplane.apiserver.authentication.claims import Mapper
from controlplane.apiserver.authentication.distributed_claims import FetchToken, expanded
from controlplane.apiserver.authentication.interface import AuthenticationFailed, Credentials, UserInfo
from controlplane.apiserver.authentication.issuers import Issuer
from controlplane.apiserver.authentication.oidc_metrics import OIDCMetrics

Fetch = Callable[[str], Awaitable[Any]]
"""``await fetch(url)``: the JSON there. Raises OSError, TimeoutError or ValueError."""

_log = logs.get(__name__)
_AGAIN_SECONDS = 10.0  # between two looks for keys: made-up key ids must not hammer the provider
_MOST_BYTES = 1 << 20
_WAIT_SECONDS = 10.0
_MOST_OTHERS = 8


class Issuers:
    """ID tokens of whichever issuers are believed now: an authenticator whose members can be replaced.

    An issuer that stays keeps the keys that were fetched.
    """

    def __init__(self, issuers: Sequence[Issuer] = (), metrics: OIDCMetrics | None = None) -> None:
        self.metrics = metrics or OIDCMetrics()
        self._members: list[tuple[Issuer, IDTokens]] = []
        self.replace(issuers)

    def replace(self, issuers: Sequence[Issuer]) -> None:
        held = {issuer.url: (issuer, tokens) for issuer, tokens in self._members}
        kept = {url: tokens for url, (issuer, tokens) in held.items() if issuer in issuers}
        self._members = [(issuer, kept.get(issuer.url) or IDTokens(issuer, metrics=self.metrics)) for issuer in issuers]
        self.metrics.keep([issuer.url for issuer in issuers])

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        for _, member in self._members:
            user = await member.authenticate(credentials)  # one issuer at most knows a token, by its name
            if user is not None:
                return user
        return None


class IDTokens:
    def __init__(
        self,
        issuer: Issuer,
        fetch: Fetch | None = None,
        clock: Callable[[], float] = time.monotonic,
        fetch_token: FetchToken | None = None,
        metrics: OIDCMetrics | None = None,
    ) -> None:
        self._issuer, self._clock, self._metrics = issuer, clock, metrics or OIDCMetrics()
        self._mapper = Mapper(issuer)
        self._fetch = fetch or fetcher(issuer.authority)
        self._fetch_token = fetch_token or token_fetcher(issuer.authority)
        self._others: dict[str, IDTokens] = {}  # issuers of distributed claims, by their addresses
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
        begun, succeeded = time.perf_counter(), False
        try:
            claims: Mapping[str, Any] = await self._verified(token, str(header.get("kid") or ""))
            claims = await expanded(claims, self._issuer.groups_claim, self._fetch_token, self._verified_by_issuer)
            user = self._mapper.user(claims)
            succeeded = True
            return user
        finally:
            self._metrics.judged(self._issuer.url, succeeded, time.perf_counter() - begun)

    async def _verified_by_issuer(self, token: str) -> Mapping[str, Any]:
        """The claims of a token that somebody else may have issued; who, it says itself."""
        import jwt

        try:
            header = jwt.get_unverified_header(token)
            url = str(jwt.decode(token, options={"verify_signature": False}).get("iss") or "")
        except jwt.InvalidTokenError:
            raise AuthenticationFailed("oidc: a distributed claim is no token") from None
        key_id = str(header.get("kid") or "")
        if url == self._issuer.url:
            return await self._verified(token, key_id)
        other = self._others.get(url)
        if other is None:
            if len(self._others) >= _MOST_OTHERS or not url.startswith("https://"):
                raise AuthenticationFailed(f"oidc: a distributed claim of {url!r} is not believed")
            named = replace(self._issuer, url=url, discovery="")
            other = self._others[url] = IDTokens(named, self._fetch, self._clock, self._fetch_token)
        return await other._verified(token, key_id)

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
            self._metrics.fetched(self._issuer.url, None)
            return
        self._metrics.fetched(self._issuer.url, json.encode(listed))
        found = {}
        for each in listed:
            try:
                if each.get("use", "sig") == "sig" and each.get("kty") in ("RSA", "EC"):  # never a shared secret
                    found[str(each.get("kid") or "")] = jwt.PyJWK(each, each.get("alg"))
            except (jwt.PyJWTError, AttributeError, TypeError):
                continue
        self._keys = found


def fetcher(authority: str) -> Fetch:
    """Over TLS, with a bound on size and time; redirects are not followed."""

    async def fetch(url: str) -> Any:
        import orjson

        return orjson.loads(await _get(url, authority, {}))

    return fetch


def token_fetcher(authority: str) -> FetchToken:
    """As :func:`fetcher`, for the tokens of distributed claims."""

    async def fetch(url: str, access_token: str) -> str:
        headers = {"Authorization": f"Bearer {access_token}"} if access_token else {}
        return (await _get(url, authority, headers)).decode().strip()

    return fetch


async def _get(url: str, authority: str, headers: Mapping[str, str]) -> bytes:
    import aiohttp

    from component.tls import client_context

    if not url.startswith("https://"):
        raise ValueError(f"{url!r} is no https URL")
    limit = aiohttp.ClientTimeout(total=_WAIT_SECONDS)
    connector = aiohttp.TCPConnector(ssl=client_context(ca_data=authority or None))
    try:
        async with (
            aiohttp.ClientSession(connector=connector, timeout=limit) as session,
            session.get(url, headers=headers, allow_redirects=False) as answer,
        ):
            if answer.status != 200:
                raise ValueError(f"{url} answers {answer.status}")
            try:
                return await call_answers.read(answer, _MOST_BYTES)
            except call_answers.TooLargeError:
                raise ValueError(f"{url} answers more than {_MOST_BYTES} bytes") from None
    except aiohttp.ClientError as problem:
        raise OSError(str(problem)) from None

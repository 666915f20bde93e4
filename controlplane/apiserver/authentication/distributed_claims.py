"""Distributed claims (OpenID Connect Core 5.6.2): groups that an ID token leaves to another server to tell.

A token too small for all of its user's groups names where they are; ``oidc`` asks here before it maps the claims. The answer is a
signed token of its own, verified like any other, with the audience that the first one had. Only the groups claim is looked for.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from controlplane.apiserver.authentication.interface import AuthenticationFailed

_NAMES, _SOURCES = "_claim_names", "_claim_sources"

FetchToken = Callable[[str, str], Awaitable[str]]
"""``await fetch(url, access_token)``: the signed token there. Raises OSError, TimeoutError or ValueError."""
Verify = Callable[[str], Awaitable[Mapping[str, Any]]]
"""The claims of a token of whichever issuer it names. Raises AuthenticationFailed."""


def source_of(claims: Mapping[str, Any], claim: str) -> tuple[str, str] | None:
    """Address and access token of where ``claim`` is; None for a claim that is here, nowhere, or aggregated (not supported)."""
    names, sources = claims.get(_NAMES), claims.get(_SOURCES)
    if claim in claims or not isinstance(names, Mapping) or claim not in names:
        return None
    source = sources.get(names[claim]) if isinstance(sources, Mapping) else None
    if not isinstance(source, Mapping):
        raise AuthenticationFailed(f"oidc: verify distributed claims: no source for claim {claim!r}")
    endpoint = source.get("endpoint")
    return (str(endpoint), str(source.get("access_token") or "")) if endpoint else None


async def expanded(claims: Mapping[str, Any], claim: str, fetch: FetchToken, verify: Verify) -> Mapping[str, Any]:
    """The claims with ``claim`` from where it is. Raises AuthenticationFailed when it cannot be had: half an identity is none."""
    where = source_of(claims, claim) if claim else None
    if where is None:
        return claims
    try:
        token = await fetch(*where)
    except (OSError, TimeoutError, ValueError) as problem:
        raise AuthenticationFailed(f"oidc: could not expand distributed claims: {problem}") from None
    told = await verify(token)
    if claim not in told:
        raise AuthenticationFailed(f"oidc: could not expand distributed claims: the answer has no claim {claim!r}")
    return {**claims, claim: told[claim]}

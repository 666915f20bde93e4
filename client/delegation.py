"""Delegated access control: a daemon that is no API server asks the API server who a caller is and what it may.

TokenReview and SubjectAccessReview, as upstream's webhook mode; answers are remembered for as long as upstream remembers
them. The kubelet's ``server.auth`` and the health ports of scheduler and controller manager (``controlplane.hosting``) use it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import orjson

from apimachinery import errors
from apimachinery.gvk import GroupVersionResource
from component.clock import Clock

if TYPE_CHECKING:
    from aiohttp import web

TOKEN_REVIEWS = GroupVersionResource("authentication.k8s.io", "v1", "tokenreviews")
ACCESS_REVIEWS = GroupVersionResource("authorization.k8s.io", "v1", "subjectaccessreviews")
_TOKEN_TTL, _ALLOWED_TTL, _DENIED_TTL = 120.0, 300.0, 30.0
_CACHE_SIZE = 1024


class Reviewer(Protocol):
    """The one call of ``client.rest.Client`` that is needed."""

    async def create(self, gvr: GroupVersionResource, obj: Mapping[str, Any], /) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class User:
    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict, hash=False)


ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))
_Value = TypeVar("_Value")


class _Memory(Generic[_Value]):
    """A bounded map whose entries expire; when it is full the oldest entry goes."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[Any, tuple[float, _Value]] = {}

    def get(self, key: Any) -> _Value | None:
        expires, value = self._held.get(key, (0.0, None))
        return value if self._clock.monotonic() < expires else None

    def put(self, key: Any, value: _Value, ttl: float) -> None:
        self._held.pop(key, None)
        if len(self._held) >= _CACHE_SIZE:
            del self._held[next(iter(self._held))]
        self._held[key] = (self._clock.monotonic() + ttl, value)


class Delegation:
    """Asks ``reviewer`` and remembers its answers."""

    def __init__(self, reviewer: Reviewer, clock: Clock) -> None:
        self._reviewer = reviewer
        self._users: _Memory[User] = _Memory(clock)
        self._decisions: _Memory[bool] = _Memory(clock)

    async def token_user(self, request: "web.BaseRequest") -> User | None:
        """The owner of the request's bearer token. None when there is no token, or one that nobody believes.

        :raises StatusError: 500 when the API server cannot be asked.
        """
        if (token := bearer_token(request)) is None:
            return None
        if (known := self._users.get(token)) is not None:
            return known
        try:
            review = await self._reviewer.create(TOKEN_REVIEWS, _review("TokenReview", TOKEN_REVIEWS, {"token": token}))
        except (ConnectionError, errors.StatusError) as error:
            raise errors.internal("the API server cannot be asked about the token") from error
        status = review.get("status") or {}
        if not status.get("authenticated"):
            return None
        found = status.get("user") or {}
        user = User(found.get("username", ""), found.get("uid", ""), tuple(found.get("groups") or ()), found.get("extra") or {})
        self._users.put(token, user, _TOKEN_TTL)
        return user

    async def allowed(self, user: User, attributes: Mapping[str, Any]) -> bool:
        """``attributes`` is the part of a SubjectAccessReview that says what is asked for.

        :raises StatusError, ConnectionError: when there is no answer.
        """
        key = (user, orjson.dumps(attributes))
        if (known := self._decisions.get(key)) is not None:
            return known
        spec: dict[str, Any] = {"user": user.name, **attributes}
        optional = {"uid": user.uid, "groups": list(user.groups), "extra": {k: list(v) for k, v in user.extra.items()}}
        spec |= {name: value for name, value in optional.items() if value}
        review = await self._reviewer.create(ACCESS_REVIEWS, _review("SubjectAccessReview", ACCESS_REVIEWS, spec))
        allowed = bool((review.get("status") or {}).get("allowed"))
        self._decisions.put(key, allowed, _ALLOWED_TTL if allowed else _DENIED_TTL)
        return allowed


def bearer_token(request: "web.BaseRequest") -> str | None:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def certificate_user(request: "web.BaseRequest") -> User | None:
    """The subject of the certificate that TLS has verified against the client CA."""
    transport = request.transport
    certificate = transport.get_extra_info("peercert") if transport is not None else None
    if not certificate:
        return None
    subject = [pair for part in certificate.get("subject", ()) for pair in part]
    name = next((value for key, value in subject if key == "commonName"), "")
    groups = tuple(value for key, value in subject if key == "organizationName")
    return User(name, groups=(*groups, "system:authenticated")) if name else None


def _review(kind: str, gvr: GroupVersionResource, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": gvr.api_version, "kind": kind, "metadata": {}, "spec": dict(spec)}

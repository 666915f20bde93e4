"""Who may talk to the kubelet: client certificates and bearer tokens say who it is, the API server says what it may.

TokenReview and SubjectAccessReview as in upstream's webhook mode; answers are remembered for as long as upstream remembers
them. Nobody is anonymous. ``routes.py`` calls :meth:`Gate.admit` before every request.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from aiohttp import web

from apimachinery import errors
from apimachinery.gvk import GroupVersionResource
from component.clock import Clock

TOKEN_REVIEWS = GroupVersionResource("authentication.k8s.io", "v1", "tokenreviews")
ACCESS_REVIEWS = GroupVersionResource("authorization.k8s.io", "v1", "subjectaccessreviews")
_TOKEN_TTL, _ALLOWED_TTL, _DENIED_TTL = 120.0, 300.0, 30.0
_CACHE_SIZE = 1024

_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
# The first path segments with a permission of their own; nodes/proxy opens the second group too (upstream: fine-grained).
_OWN = {"stats": "stats", "metrics": "metrics", "logs": "log", "spec": "spec", "checkpoint": "checkpoint"}
_FINE = {"pods": "pods", "runningpods": "pods", "healthz": "healthz", "configz": "configz"}


class Reviewer(Protocol):
    """The one call of ``client.rest.Client`` that is needed."""

    async def create(self, gvr: GroupVersionResource, obj: Mapping[str, Any], /) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class User:
    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict, hash=False)


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


class Gate:
    """Authentication, then authorization, of one request to the kubelet of ``node``."""

    def __init__(self, reviewer: Reviewer, node: str, clock: Clock) -> None:
        self._reviewer = reviewer
        self._node = node
        self._users: _Memory[User] = _Memory(clock)
        self._decisions: _Memory[bool] = _Memory(clock)

    async def admit(self, request: web.BaseRequest) -> User:
        """Raises StatusError 401 or 403; 500 when the API server cannot be asked."""
        user = certificate_user(request) or await self._token_user(request)
        if user is None:
            raise errors.unauthorized()
        verb, subresources = attributes(request.method, request.path)
        for subresource in subresources:
            if await self._allowed(user, verb, subresource, request.path):
                return user
        names = " ".join(subresources)
        raise errors.forbidden(f"Forbidden (user={user.name}, verb={verb}, resource=nodes, subresource(s)=[{names}])")

    async def _token_user(self, request: web.BaseRequest) -> User | None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return None
        token = token.strip()
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

    async def _allowed(self, user: User, verb: str, subresource: str, path: str) -> bool:
        key = (user, verb, subresource)
        if (known := self._decisions.get(key)) is not None:
            return known
        resource = {"verb": verb, "version": "v1", "resource": "nodes", "subresource": subresource, "name": self._node}
        spec = {"user": user.name, "resourceAttributes": resource}
        optional = {"uid": user.uid, "groups": list(user.groups), "extra": {k: list(v) for k, v in user.extra.items()}}
        spec |= {name: value for name, value in optional.items() if value}
        try:
            review = await self._reviewer.create(ACCESS_REVIEWS, _review("SubjectAccessReview", ACCESS_REVIEWS, spec))
        except (ConnectionError, errors.StatusError) as error:
            text = f"Authorization error (user={user.name}, verb={verb}, resource=nodes, subresource={subresource})"
            raise errors.internal(text) from error
        allowed = bool((review.get("status") or {}).get("allowed"))
        self._decisions.put(key, allowed, _ALLOWED_TTL if allowed else _DENIED_TTL)
        return allowed


def certificate_user(request: web.BaseRequest) -> User | None:
    """The subject of the certificate that TLS has verified against the client CA."""
    transport = request.transport
    certificate = transport.get_extra_info("peercert") if transport is not None else None
    if not certificate:
        return None
    subject = [pair for part in certificate.get("subject", ()) for pair in part]
    name = next((value for key, value in subject if key == "commonName"), "")
    groups = tuple(value for key, value in subject if key == "organizationName")
    return User(name, groups=(*groups, "system:authenticated")) if name else None


def attributes(method: str, path: str) -> tuple[str, tuple[str, ...]]:
    """The verb and the subresources of ``nodes`` any of which opens this path."""
    verb = _VERBS.get(method, "")
    first = path.strip("/").split("/", 1)[0]
    if first in _OWN:
        return verb, (_OWN[first],)
    if first in _FINE:
        return verb, (_FINE[first], "proxy")
    return verb, ("proxy",)


def _review(kind: str, gvr: GroupVersionResource, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": gvr.api_version, "kind": kind, "metadata": {}, "spec": dict(spec)}

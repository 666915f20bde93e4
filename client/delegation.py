"""Delegated access control: a daemon that is no API server asks the API server who a caller is and what it may.

TokenReview and SubjectAccessReview, as upstream's webhook mode; answers are remembered for as long as upstream remembers
them. The kubelet's ``server.auth`` and the health ports of scheduler and controller manager (``controlplane.hosting``) use it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import orjson

from apimachinery import errors
from apimachinery.gvk import GroupVersionResource
from component import logs
from component.clock import Clock
from component.tls import peer_chain

if TYPE_CHECKING:
    from aiohttp import web

    from component.client_certificates import Authorities

TOKEN_REVIEWS = GroupVersionResource("authentication.k8s.io", "v1", "tokenreviews")
ACCESS_REVIEWS = GroupVersionResource("authorization.k8s.io", "v1", "subjectaccessreviews")
_CERTIFICATE_TTL = 60.0
_CACHE_SIZE = 1024
_log = logs.get(__name__)


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


@dataclass(frozen=True, slots=True)
class Ttls:
    """For how many seconds answers count; upstream's defaults."""

    token: float = 120.0
    allowed: float = 300.0
    denied: float = 30.0


DEFAULT_TTLS = Ttls()


class Delegation:
    """Asks ``reviewer`` and remembers its answers."""

    def __init__(self, reviewer: Reviewer, clock: Clock, ttls: Ttls = DEFAULT_TTLS) -> None:
        self._reviewer, self._ttls = reviewer, ttls
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
        self._users.put(token, user, self._ttls.token)
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
        self._decisions.put(key, allowed, self._ttls.allowed if allowed else self._ttls.denied)
        return allowed


def bearer_token(request: "web.BaseRequest") -> str | None:
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


class CertificateUsers:
    """Whom client certificates name. What a certificate is worth is remembered for a minute, as it costs a signature check."""

    def __init__(self, authorities: Callable[[], bytes] | None, clock: Clock) -> None:
        """``authorities`` is asked for the PEM of the CAs to believe, and may change its answer; None believes nobody."""
        self._pem, self._clock = authorities, clock
        self._authorities: Authorities | None = None
        self._known: _Memory[tuple[bytes, User | None]] = _Memory(clock)

    def presented(self, request: "web.BaseRequest") -> bool:
        """Whether the caller showed any certificate at all."""
        return self._pem is not None and bool(_peer_chain(request))

    async def user(self, request: "web.BaseRequest") -> User | None:
        """None without a certificate, and with one that counts for nothing: a token may still be good."""
        if self._pem is None or not (certificate := _peer_chain(request)):
            return None
        bundle = self._pem()
        if (known := self._known.get(certificate)) is not None and known[0] is bundle:
            return known[1]
        if self._authorities is None:
            # the library weighs 11 MB and takes its time to load: for those who are called so, and not on the loop
            self._authorities = await asyncio.to_thread(_load_authorities, self._pem)
        user = self._judge(self._authorities, certificate)
        self._known.put(certificate, (bundle, user), _CERTIFICATE_TTL)
        return user

    def _judge(self, authorities: "Authorities", certificate: Sequence[bytes]) -> User | None:
        from component.client_certificates import UntrustedCertificateError

        try:
            name, groups = authorities.subject(certificate, self._clock.now())
        except UntrustedCertificateError as refused:
            _log.v(2, "Refused a client certificate", reason=str(refused))
            return None
        return User(name, groups=(*groups, "system:authenticated"))


def _load_authorities(pem: Callable[[], bytes]) -> "Authorities":
    from component.client_certificates import Authorities

    return Authorities(pem)


def _peer_chain(request: "web.BaseRequest") -> tuple[bytes, ...]:
    transport = request.transport
    connection = transport.get_extra_info("ssl_object") if transport is not None else None
    return peer_chain(connection) if connection is not None else ()


def _review(kind: str, gvr: GroupVersionResource, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": gvr.api_version, "kind": kind, "metadata": {}, "spec": dict(spec)}

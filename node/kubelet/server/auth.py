"""Who may talk to the kubelet: client certificates and bearer tokens say who it is, the API server says what it may.

Nobody is anonymous. ``routes.py`` calls :meth:`Gate.admit` before every request; ``client.delegation`` asks and remembers.
"""

from collections.abc import Callable

from aiohttp import web

from apimachinery import errors
from client.delegation import DEFAULT_TTLS, CertificateUsers, Delegation, Reviewer, Ttls, User
from component.clock import Clock

_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
# The first path segments with a permission of their own; nodes/proxy opens the second group too (upstream: fine-grained).
_OWN = {"stats": "stats", "metrics": "metrics", "logs": "log", "checkpoint": "checkpoint"}
_FINE = {"pods": "pods", "runningpods": "pods", "healthz": "healthz", "configz": "configz", "statusz": "statusz"}
# A WebSocket handshake is a GET, yet it runs commands: whoever may only read must not get in by it.
_RUNS = frozenset({"exec", "attach", "portForward", "run"})


class Gate:
    """Authentication, then authorization, of one request to the kubelet of ``node``."""

    def __init__(
        self,
        reviewer: Reviewer,
        node: str,
        clock: Clock,
        client_ca: Callable[[], bytes] | None = None,
        ttls: Ttls = DEFAULT_TTLS,
    ) -> None:
        """``client_ca`` is asked for the PEM of the authorities whose client certificates are recognised."""
        self._node = node
        self._delegation = Delegation(reviewer, clock, ttls)
        self._certificates = CertificateUsers(client_ca, clock)

    async def admit(self, request: web.BaseRequest) -> User:
        """Raises StatusError 401 or 403; 500 when the API server cannot be asked."""
        user = await self._certificates.user(request) or await self._delegation.token_user(request)
        if user is None:
            raise errors.unauthorized()
        verb, subresources = attributes(request.method, request.path)
        for subresource in subresources:
            if await self._allowed(user, verb, subresource):
                return user
        names = " ".join(subresources)
        raise errors.forbidden(f"Forbidden (user={user.name}, verb={verb}, resource=nodes, subresource(s)=[{names}])")

    async def _allowed(self, user: User, verb: str, subresource: str) -> bool:
        resource = {"verb": verb, "version": "v1", "resource": "nodes", "subresource": subresource, "name": self._node}
        try:
            return await self._delegation.allowed(user, {"resourceAttributes": resource})
        except (ConnectionError, errors.StatusError) as error:
            text = f"Authorization error (user={user.name}, verb={verb}, resource=nodes, subresource={subresource})"
            raise errors.internal(text) from error


def attributes(method: str, path: str) -> tuple[str, tuple[str, ...]]:
    """The verb and the subresources of ``nodes`` any of which opens this path."""
    verb = _VERBS.get(method, "")
    first = path.strip("/").split("/", 1)[0]
    if first in _RUNS:
        return "create", ("proxy",)
    if first in _OWN:
        return verb, (_OWN[first],)
    if first in _FINE:
        return verb, (_FINE[first], "proxy")
    return verb, ("proxy",)

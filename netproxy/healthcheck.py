"""Answers load balancers on each service's ``healthCheckNodePort``: 200 while the service has endpoints on this node.

``proxier`` hands over the wanted set after every sync; one small HTTP server per port.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack

import orjson
from aiohttp import web

from component import logs
from component.errors import OperatorError
from component.serving import listening
from netproxy.plan import HealthCheck
from netproxy.trackers.services import Family

_log = logs.get(__name__)


class HealthCheckServers:
    """Owns the servers; ``run`` keeps them until cancelled."""

    def __init__(
        self,
        healthy: Callable[[], bool],
        host: str = "0.0.0.0",  # noqa: S104 - balancers come from outside
        on_failure: Callable[[str, str], object] | None = None,
    ) -> None:
        """``host`` is empty for every address of both families. ``on_failure`` is told service and reason when a port cannot
        be opened."""
        self._healthy = healthy
        self._on_failure = on_failure
        self._host = host
        self._wanted: dict[str, dict[Family, HealthCheck]] = {}
        self._running: dict[str, tuple[int, AsyncExitStack]] = {}
        self._changed = asyncio.Event()

    def set(self, checks: Mapping[str, HealthCheck | None], family: Family) -> None:
        """Services whose check changed in one family, by ``namespace/name``; None for one that has none any more."""
        for service, check in checks.items():
            held = self._wanted.setdefault(service, {})
            if check is None:
                held.pop(family, None)
            else:
                held[family] = check
            if not held:
                del self._wanted[service]
        self._changed.set()

    async def run(self) -> None:
        """Open and close ports as wanted. A port that cannot be opened is tried again at the next change."""
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                await self._converge()
        finally:
            for service in list(self._running):
                await self._stop(service)

    async def _converge(self) -> None:
        for service, (port, _) in list(self._running.items()):
            if all(check.port != port for check in self._wanted.get(service, {}).values()):
                await self._stop(service)
        for service, checks in list(self._wanted.items()):
            if service not in self._running:
                await self._start(service, next(iter(checks.values())).port)

    async def _start(self, service: str, port: int) -> None:
        stack = AsyncExitStack()

        async def handler(request: web.BaseRequest) -> web.StreamResponse:
            return self._answer(service)

        try:
            await stack.enter_async_context(listening(handler, self._host, port, drain_seconds=1))
        except (OSError, OperatorError) as error:
            _log.error("Cannot answer load balancers' health checks", service=service, port=port, err=error)
            if self._on_failure is not None:
                self._on_failure(service, f"node cannot answer health checks of service {service}: {error}")
            return
        self._running[service] = (port, stack)

    async def _stop(self, service: str) -> None:
        _, stack = self._running.pop(service)
        await stack.aclose()

    def _answer(self, service: str) -> web.Response:
        """A pod with an address of each family is one endpoint: what the family with more of them says counts."""
        checks, healthy = self._wanted.get(service, {}), self._healthy()
        local = max((check.local_endpoints for check in checks.values()), default=0)
        namespace, _, name = service.partition("/")
        body = orjson.dumps(
            {"service": {"namespace": namespace, "name": name}, "localEndpoints": local, "serviceProxyHealthy": healthy}
        )
        headers = {
            "Content-Type": "application/json",
            "X-Content-Type-Options": "nosniff",
            "X-Load-Balancing-Endpoint-Weight": str(local),
        }
        return web.Response(status=200 if local and healthy else 503, body=body, headers=headers)

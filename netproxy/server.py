"""The proxy's two small HTTP servers: health for load balancers, and metrics with what was programmed. Made by ``__main__``."""

from collections.abc import Awaitable, Callable

import orjson
from aiohttp import web

from apimachinery.times import format_time
from component.clock import Clock
from component.metrics import CONTENT_TYPE, Registry
from netproxy.health import ProxyHealth
from netproxy.journal import Journal
from netproxy.metrics import ProxyMetrics

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def health_handler(health: ProxyHealth, metrics: ProxyMetrics, clock: Clock) -> Handler:
    """``/healthz`` and ``/livez``, 200 or 503, with the times of upstream's answer."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/healthz":
            code, counter = (200 if health.healthy and health.eligible else 503), metrics.healthz
        elif request.path == "/livez":
            code, counter = (200 if health.healthy else 503), metrics.livez
        else:
            return web.Response(status=404, text="404 page not found\n")
        counter.labels(str(code)).inc()
        now = clock.now()
        # while nothing is pending the state is as good as now
        updated = now if health.healthy else health.last_updated
        body: dict[str, object] = {"lastUpdated": format_time(updated) if updated else None, "currentTime": format_time(now)}
        if request.path == "/healthz":
            body |= {"nodeEligible": health.eligible}
        headers = {"Content-Type": "application/json", "X-Content-Type-Options": "nosniff"}
        return web.Response(status=code, body=orjson.dumps(body), headers=headers)

    return handle


def metrics_handler(registry: Registry, mode: str, journal: Journal) -> Handler:
    """``/metrics``, ``/healthz``, ``/proxyMode`` and ``/debug/programmed``."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/metrics":
            return web.Response(body=registry.expose(), headers={"Content-Type": CONTENT_TYPE})
        if request.path in ("/healthz", "/livez", "/readyz"):
            return web.Response(text="ok")
        if request.path == "/proxyMode":
            return web.Response(text=mode)
        if request.path == "/debug/programmed":
            return web.Response(body=orjson.dumps(journal.as_json()), content_type="application/json")
        return web.Response(status=404, text="404 page not found\n")

    return handle

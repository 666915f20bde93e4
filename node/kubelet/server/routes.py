"""All paths of the kubelet's server, in one table. ``kubelet.py`` makes a :class:`Server` and runs it on port 10250.

A request passes the gate (``auth.py``), then its handler. Errors leave as plain text with upstream's code and words,
which the API server puts into the Status that clients see.
"""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from typing import Any

import orjson
from aiohttp import web

from apimachinery.errors import StatusError
from component import logs as logging
from component import serving
from component.clock import Clock, RealClock
from component.metrics import Registry
from cri.streaming import StreamingError
from node.kubelet.interface import KubeletFacade
from node.kubelet.server import exec as streams
from node.kubelet.server import logs
from node.kubelet.server.auth import Gate
from node.kubelet.server.checkpoint import Checkpoints
from node.kubelet.server.metrics import Pages
from node.kubelet.server.node_logs import NodeLogs

_log = logging.get(__name__)
_Handler = Callable[[web.Request, KubeletFacade], Awaitable[web.StreamResponse]]
_CONTAINER = "/{namespace}/{pod}/{container}"
_CONTAINER_UID = "/{namespace}/{pod}/{uid}/{container}"


class Server:
    """The kubelet's HTTPS server. Parts that are left out answer that they are not there."""

    def __init__(
        self,
        kubelet: KubeletFacade,
        gate: Gate,
        registry: Registry,
        *,
        pages: Pages | None = None,
        node_logs: NodeLogs | None = None,
        checkpoints: Checkpoints | None = None,
        configuration: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._kubelet = kubelet
        self._gate = gate
        self._clock = clock or RealClock()
        self._metrics = pages or Pages(registry, None, self._clock)
        self._node_logs = node_logs or NodeLogs(None)
        self._checkpoints = checkpoints
        self._configuration = {"kubeletconfig": dict(configuration or {})}
        self._requests = registry.counter("kubelet_http_requests_total", "Requests to the kubelet's server", ("method", "path"))

    async def run(self, host: str, port: int, context: ssl.SSLContext | None, **options: Any) -> None:
        """Serve until cancelled. ``context`` must ask for client certificates (``component.tls.server_context``)."""
        options.setdefault("drain_seconds", 2.0)
        await serving.serve(self.application(), host, port, context, **options)

    def application(self) -> web.Application:
        app = web.Application(middlewares=[self._middleware], client_max_size=1 << 20)
        for path in ("/exec", "/attach"):
            handler = self._with_kubelet(streams.exec_ if path == "/exec" else streams.attach)
            for tail in (_CONTAINER, _CONTAINER_UID):
                app.router.add_route("GET", path + tail, handler)
                app.router.add_route("POST", path + tail, handler)
        for tail in ("/{namespace}/{pod}", "/{namespace}/{pod}/{uid}"):
            app.router.add_route("GET", "/portForward" + tail, self._with_kubelet(streams.port_forward))
            app.router.add_route("POST", "/portForward" + tail, self._with_kubelet(streams.port_forward))
        for tail in (_CONTAINER, _CONTAINER_UID):
            app.router.add_post("/run" + tail, self._with_kubelet(streams.run))
        app.router.add_get("/containerLogs" + _CONTAINER, self._container_logs)
        app.router.add_get("/logs", self._node_logs.handle)
        app.router.add_get("/logs/{path:.*}", self._node_logs.handle)
        if self._checkpoints is not None:
            app.router.add_post("/checkpoint" + _CONTAINER, self._checkpoints.handle)
        for path, page in {
            "/healthz": self._healthz,
            "/pods": self._pods,
            "/configz": self._configz,
            "/metrics": self._metrics.metrics,
            "/metrics/resource": self._metrics.resource,
            "/metrics/cadvisor": self._metrics.cadvisor,
            "/metrics/probes": self._metrics.probes,
            "/stats/summary": self._metrics.summary,
        }.items():
            app.router.add_get(path, page)
            app.router.add_get(path + "/", page)
        return app

    def _with_kubelet(self, handler: _Handler) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            return await handler(request, self._kubelet)

        return handle

    @web.middleware
    async def _middleware(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        try:
            await self._gate.admit(request)
            if request.match_info.http_exception is None:  # unknown paths would each become a series of their own
                self._requests.labels(request.method, request.path.strip("/").split("/", 1)[0]).inc()
            return await handler(request)
        except StatusError as error:
            return web.Response(status=error.code, text=error.message)
        except StreamingError as error:
            return web.Response(status=500, text=f"Internal error occurred: {error}")
        except (ConnectionResetError, web.HTTPException):
            raise  # the caller went away, or the path is unknown; aiohttp knows what to do
        except Exception as error:
            _log.exception("Request failed", path=request.path)
            return web.Response(status=500, text=f"Internal error occurred: {logging.describe(error)}")

    async def _healthz(self, request: web.Request) -> web.Response:
        if reasons := self._kubelet.healthy():
            return web.Response(status=500, text="\n".join(reasons))
        return web.Response(text="ok")

    async def _pods(self, request: web.Request) -> web.Response:
        body = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": list(self._kubelet.pods())}
        return web.Response(body=orjson.dumps(body), content_type="application/json")

    async def _configz(self, request: web.Request) -> web.Response:
        return web.Response(body=orjson.dumps(self._configuration), content_type="application/json")

    async def _container_logs(self, request: web.Request) -> web.StreamResponse:
        where = request.match_info
        options = logs.parse_options(request.query, self._clock.now())
        previous = request.query.get("previous", "").lower() in ("true", "1")
        log = await self._kubelet.container_log(where["namespace"], where["pod"], where["container"], previous=previous)

        async def running() -> bool:
            # aiohttp does not tell a handler that its client left; a log that is silent would be followed for ever.
            return request.transport is not None and await self._kubelet.container_running(log.container_id)

        async with aclosing(logs.read(log, options, running)) as chunks:
            # What goes wrong at the first read still gets a status code of its own.
            first = b"" if options.follow else await anext(chunks, b"")
            response = web.StreamResponse(headers={"Content-Type": "text/plain"})
            response.enable_chunked_encoding()
            await response.prepare(request)
            with suppress(ConnectionError):  # whoever follows a log leaves in the middle of it: no error
                if first:
                    await response.write(first)
                async for chunk in chunks:
                    await response.write(chunk)
                await response.write_eof()
        return response

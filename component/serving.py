"""Listening: puts an aiohttp handler or application on a port, with TLS if given, and drains it when cancelled.

Called by daemons' wiring for the API, the kubelet's server and health ports.
"""

import asyncio
import contextlib
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from component import logs
from component.acceptor import PacedSite
from component.errors import OperatorError

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server really listens; the port is the kernel's choice when 0 was asked for."""

    host: str
    port: int
    tls: bool

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"


@asynccontextmanager
async def listening(
    handler: Handler | web.Application | web.Server,
    host: str,
    port: int,
    ssl_context: ssl.SSLContext | None = None,
    *,
    drain_seconds: float = 60.0,
    on_drain: Callable[[], object] | None = None,
    backlog: int = 4096,
    reuse_port: bool = False,
    **server_options: Any,
) -> AsyncIterator[Address]:
    """Serve inside the block. Leaving it refuses new connections, calls ``on_drain`` (end long-lived streams there),
    waits up to ``drain_seconds`` for requests that still run, and closes what is left. A ready ``web.Server`` keeps its own
    options.

    :raises OperatorError: naming the address, when it cannot be bound.
    """
    server_options.setdefault("access_log", None)
    # aiohttp takes zero for no limit
    drain_seconds = max(drain_seconds, 0.001)
    runner: web.AppRunner | web.ServerRunner
    if isinstance(handler, web.Application):
        runner = web.AppRunner(handler, handle_signals=False, shutdown_timeout=drain_seconds, **server_options)
    else:
        server = handler if isinstance(handler, web.Server) else web.Server(handler, **server_options)
        runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=drain_seconds)
    await runner.setup()
    site = PacedSite(runner, host, port, ssl_context=ssl_context, backlog=backlog, reuse_port=reuse_port or None)
    try:
        await _bind(site, host, port)
        bound_host, bound_port = runner.addresses[0][:2]
        yield Address(bound_host, bound_port, ssl_context is not None)
    finally:
        if on_drain is not None:
            await site.stop()
            on_drain()
        # a second cancellation must not leave half-closed sockets behind
        with contextlib.suppress(RuntimeError):
            await asyncio.shield(runner.cleanup())


async def _bind(site: web.TCPSite, host: str, port: int) -> None:
    try:
        await site.start()
    except OSError as error:
        # asyncio's own text repeats the address; an unknown host has a negative number and a text of its own
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
        raise OperatorError(f"cannot listen on {host}:{port}: {reason}") from None


async def serve(
    handler: Handler | web.Application | web.Server,
    host: str,
    port: int,
    ssl_context: ssl.SSLContext | None = None,
    *,
    ready: Callable[[Address], object] | None = None,
    **options: Any,
) -> None:
    """Serve until cancelled, then drain; ``ready`` is told the address once connections are accepted.

    Further options are those of :func:`listening`.
    """
    async with listening(handler, host, port, ssl_context, **options) as address:
        _log.info("Serving", address=address.url)
        if ready is not None:
            ready(address)
        await asyncio.Event().wait()

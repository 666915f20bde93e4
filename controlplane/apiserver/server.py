"""The listener: TLS, connections, graceful drain. ``__main__`` and the test harness start it; requests go to ``chain``."""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

from aiohttp import web
from aiohttp.web_protocol import RequestHandler
from aiohttp.web_request import BaseRequest

from controlplane.apiserver.wire.reply import Answer

Handler = Callable[[BaseRequest], Awaitable[Answer]]
log = logging.getLogger(__name__)

MAX_HEADER = 64 * 1024  # one line or field; bearer tokens with many groups are long
DRAIN_SECONDS = 10.0
KEEPALIVE_SECONDS = 180.0


class Connection(RequestHandler):
    """aiohttp's connection with room for what is worth remembering between its requests (``Call.connection``)."""

    __slots__ = ("memory",)

    def __init__(self, manager: web.Server, **options: Any) -> None:
        super().__init__(manager, **options)
        self.memory: dict[str, Any] = {}


class Server(web.Server):
    """aiohttp's low-level server without a router: half the cost of ``web.Application`` for a small answer."""

    def __call__(self) -> RequestHandler:
        return Connection(self, loop=self._loop, **self._kwargs)


@contextlib.asynccontextmanager
async def listening(handler: Handler, host: str, port: int, tls: ssl.SSLContext | None) -> AsyncIterator[tuple[str, int]]:
    """Serve until the block ends, then stop accepting, let requests finish for a while and close. Yields the address."""
    loop = asyncio.get_running_loop()
    server = Server(
        cast("Any", handler),
        handler_cancellation=True,  # a watch ends when its client goes away
        access_log=None,
        keepalive_timeout=KEEPALIVE_SECONDS,
        max_line_size=MAX_HEADER,
        max_field_size=MAX_HEADER,
    )
    listener = await loop.create_server(server, host, port, ssl=tls, backlog=1024, reuse_address=True)
    try:
        yield listener.sockets[0].getsockname()[:2]
    finally:
        listener.close()
        server.pre_shutdown()
        await server.shutdown(DRAIN_SECONDS)

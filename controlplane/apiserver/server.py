"""Connections: aiohttp's low-level server, TLS that lets ``authentication`` judge certificates, and the chain behind it.

``__main__`` and the test harness give the result to ``component.serving``; every request goes to ``chain``.
"""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from aiohttp.web_protocol import RequestHandler
from aiohttp.web_request import BaseRequest

from component import logs
from controlplane.apiserver.refusal import Refusal
from controlplane.apiserver.wire.reply import Answer
from controlplane.apiserver.wire.turns import take_turn

Handler = Callable[[BaseRequest], Awaitable[Answer]]

_log = logs.get(__name__)
MAX_HEADER = 64 * 1024  # one line or field; bearer tokens with many groups are long
MAX_HEAD = 1024 * 1024  # all of them together, as upstream's
USUAL_HEAD = 32 * 1024  # what is larger takes turns with others of its kind
HEAD_SECONDS = (
    32.0  # from its first byte, or from the start of the connection, until a request's head must be there, as upstream's
)
KEEPALIVE_SECONDS = 180.0
UNWANTED_SECONDS = 1.0  # how long the rest of a body is read that its answer did not need
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 36\r\n"
_TOO_LARGE += b"Connection: close\r\n\r\n431 Request Header Fields Too Large\n"


class Connection(RequestHandler):
    """aiohttp's connection with room for what is worth remembering between its requests (``Call.connection``)."""

    __slots__ = ("_head", "_head_late", "_reading", "memory", "on_gone")

    def __init__(self, manager: web.Server, **options: Any) -> None:
        super().__init__(manager, **options)
        self.memory: dict[str, Any] = {}
        self.on_gone: Callable[[], None] | None = None  # ends what runs, when the client leaves; else its task is cancelled
        self._head = 0  # bytes of a head that has begun and not ended
        self._head_late: asyncio.TimerHandle | None = None
        self._reading: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._head_late = self._loop.call_later(HEAD_SECONDS, self._too_late)

    def connection_lost(self, exc: BaseException | None) -> None:
        """A cancelled task is garbage that only the collector finds; ten thousand watches end by themselves instead."""
        self._whole_head()
        on_gone, self.on_gone = self.on_gone, None
        if on_gone is not None:
            self._task_handler = None
            on_gone()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """While it shuts down aiohttp drops what arrives, the rest of a body included; a request that has begun needs it."""
        closing = self._close, self._force_close
        if not any(closing) or self._current_request is None:
            super().data_received(data)
            if self._in_head():
                self._more_head(len(data))
            elif self._head_late is not None:
                self._whole_head()
            return
        self._close = self._force_close = False
        super().data_received(data)
        self._close, self._force_close = self._close or closing[0], self._force_close or closing[1]

    def _in_head(self) -> bool:
        """Whether what arrived last belongs to a head of which more must come."""
        waiter = self._waiter
        return not self._messages and (not waiter.done() if waiter is not None else not self._request_count)

    def _more_head(self, size: int) -> None:
        self._head += size
        if self._head > MAX_HEAD:
            if self.transport is not None:
                self.transport.write(_TOO_LARGE)
            self._refuse()
            self.force_close()
            return
        if self._head_late is None:
            self._head_late = self._loop.call_later(HEAD_SECONDS, self._too_late)
        if self._head > USUAL_HEAD and self.transport is not None:
            self.transport.pause_reading()
            self._reading = self._loop.create_task(self._read_on(self.transport), name="read-large-head")

    def _too_late(self) -> None:
        self._refuse()
        self.force_close()

    def close(self) -> None:
        """Between requests: a body that nobody wanted was still coming when its request had been answered."""
        if self._waiter is None and not self._request_in_progress:
            self._refuse()
        super().close()

    def _refuse(self) -> None:
        """Read nothing any more, whatever aiohttp does until the connection is closed."""
        if self.transport is not None and self._manager is not None:
            self.transport = cast("asyncio.Transport", Refusal(self.transport, cast("Server", self._manager).leaving))

    async def _read_on(self, transport: asyncio.Transport) -> None:
        """Heads that are larger than any good one are read one after the other, whoever sends how many of them."""
        await take_turn()
        if not transport.is_closing():
            transport.resume_reading()

    def _whole_head(self) -> None:
        self._head = 0
        if self._head_late is not None:
            self._head_late.cancel()
            self._head_late = None

    def handle_error(
        self, request: BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """What is not HTTP is answered in as few words as upstream, and not quoted in the log: it may hold a token."""
        if not isinstance(exc, HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        status = 431 if isinstance(exc, LineTooLong) else status
        self._refuse()
        _log.v(2, "Refused what is not HTTP", remote=request.remote, status=status, reason=type(exc).__name__)
        answer = web.Response(status=status, text=f"{status} {HTTPStatus(status).phrase}\n")
        answer.force_close()
        return answer


class Server(web.Server):
    """aiohttp's low-level server without a router: half the cost of ``web.Application`` for a small answer."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.leaving: set[Refusal] = set()

    async def shutdown(self, timeout: float | None = None) -> None:
        await super().shutdown(timeout)
        for each in list(self.leaving):
            each.cut()

    def __call__(self) -> RequestHandler:
        return Connection(self, loop=self._loop, **self._kwargs)


def server_for(handler: Handler) -> Server:
    """Must be called inside the running loop."""
    return Server(
        cast("Any", handler),
        handler_cancellation=True,  # a watch ends when its client goes away
        loop=asyncio.get_running_loop(),
        access_log=None,
        auto_decompress=False,  # upstream takes bodies as they are; and what expands while it is read has no bound
        keepalive_timeout=KEEPALIVE_SECONDS,
        lingering_time=UNWANTED_SECONDS,
        max_line_size=MAX_HEADER,
        max_field_size=MAX_HEADER,
    )

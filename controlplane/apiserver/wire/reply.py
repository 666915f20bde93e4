"""Answers on the wire: head and body in one write, because aiohttp's own Response costs more than the rest of a GET.

Endpoints return a :class:`Reply` (or, for streams, any aiohttp StreamResponse they have already written); ``chain`` finishes it.
"""

import asyncio
import time
from collections.abc import Iterable
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Protocol

from aiohttp.web_request import BaseRequest
from isal import isal_zlib

from component import logs
from controlplane.apiserver.wire.pieces import Pieces, Stream, sliced
from controlplane.apiserver.wire.turns import take_turn

_log = logs.get(__name__)
JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
_AT_ONCE = 64 * 1024  # a body up to here goes out with its head
_TURN = 8  # pieces between two turns of the loop
STALLED_SECONDS = 60.0  # how long a connection may take nothing of an answer


class Answer(Protocol):
    """What aiohttp's connection needs from an answer; StreamResponse has this shape too."""

    @property
    def status(self) -> int: ...

    @property
    def keep_alive(self) -> bool | None: ...

    async def prepare(self, request: BaseRequest) -> Any: ...

    async def write_eof(self) -> None: ...


class Dates:
    """The Date header, formatted once a second."""

    def __init__(self) -> None:
        self._second, self._line = 0, b""

    def line(self) -> bytes:
        second = int(time.time())
        if second != self._second:
            self._second, self._line = second, b"Date: " + formatdate(second, usegmt=True).encode() + b"\r\n"
        return self._line


class Reply:
    """A complete answer. ``body`` may be shared bytes; it is never copied before it reaches the transport."""

    __slots__ = ("body", "cache_control", "content_type", "gzip", "headers", "keep_alive", "status", "trailer", "until_closed")

    def __init__(
        self,
        status: int,
        body: bytes | Pieces | Stream = b"",
        content_type: str = JSON,
        headers: Iterable[tuple[str, str]] = (),
        trailer: bytes = b"",
    ) -> None:
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers: list[tuple[str, str]] = list(headers)
        self.keep_alive: bool | None = True
        self.trailer = trailer  # constant header lines that chain adds (audit id, date)
        self.cache_control = b"no-cache, private"
        self.until_closed = False  # the end of the body is the end of the connection, as it was before there were chunks
        self.gzip = False  # whether the body is to be compressed on its way

    @property
    def is_long(self) -> bool:
        """Whether sending it takes more than handing it to the connection."""
        return isinstance(self.body, Stream) or len(self.body) > _AT_ONCE

    def head(self) -> bytes:
        lines = [
            STATUS_LINES.get(self.status) or f"HTTP/1.1 {self.status} \r\n".encode(),
            self.trailer,
            b"Content-Type: ",
            self.content_type.encode(),
            self._length(),
        ]
        for name, value in self.headers:
            lines.append(f"{name}: {_one_line(value)}\r\n".encode())
        if not self.keep_alive:
            lines.append(b"Connection: close\r\n")
        lines.append(b"\r\n")
        return b"".join(lines)

    def _length(self) -> bytes:
        if self.gzip:
            return _GZIPPED
        if isinstance(self.body, Stream):
            return b"\r\n" if self.until_closed else b"\r\nTransfer-Encoding: chunked\r\n"
        return b"\r\nContent-Length: %d\r\n" % len(self.body)

    async def prepare(self, request: BaseRequest) -> None:
        if not request.keep_alive:
            self.keep_alive = False
        transport, body = request.transport, self.body
        if isinstance(body, Stream) and request.version < (1, 1):
            self.until_closed, self.keep_alive = True, False
        if transport is None:
            return
        head = self.head()
        if request.method == "HEAD" or not body:
            transport.write(head)
        elif isinstance(body, Stream):
            transport.write(head)
            await self._send_stream(body, request, transport)
        elif self.gzip:
            transport.write(head)
            await self._send_packed(request, transport)
        elif len(body) <= _AT_ONCE:
            transport.write(head + bytes(body))
        else:
            await self._send(request, transport, head)

    async def _send(self, request: BaseRequest, transport: asyncio.Transport, head: bytes) -> None:
        if isinstance(self.body, Pieces):
            head += self.body.lead
        for number, piece in enumerate(_after_lead(self.body)):
            if number:
                transport.write(piece)
            else:
                transport.writelines((head, piece))
            await _turn(request, transport, number)

    async def _send_stream(self, body: Stream, request: BaseRequest, transport: asyncio.Transport) -> None:
        """What goes wrong on the way ends the connection: the client must not take a part for the whole."""
        packer = isal_zlib.compressobj(1, isal_zlib.DEFLATED, _GZIP_FORMAT) if self.gzip else None
        held = packer.compress(body.lead) if packer is not None else body.lead
        number = 0
        try:
            async for piece in body.rest:
                held += packer.compress(piece) if packer is not None else piece
                if len(held) > _AT_ONCE:
                    transport.write(self._chunk(held))
                    held = b""
                await _turn(request, transport, number)
                number += 1
        except Exception as problem:
            transport.abort()
            if not isinstance(problem, ConnectionError):
                _log.error("A long answer broke off", err=problem)
            raise ConnectionResetError("the answer broke off") from problem
        held += packer.flush() if packer is not None else b""
        transport.write(held if self.until_closed else self._chunk(held) + b"0\r\n\r\n")

    def _chunk(self, data: bytes) -> bytes:
        return data if self.until_closed else b"%x\r\n%b\r\n" % (len(data), data)

    async def _send_packed(self, request: BaseRequest, transport: asyncio.Transport) -> None:
        """By ISA-L, whose fastest level makes of a piece of JSON in 15 us what TLS then need not encrypt."""
        packer = isal_zlib.compressobj(1, isal_zlib.DEFLATED, _GZIP_FORMAT)
        packed = packer.compress(self.body.lead) if isinstance(self.body, Pieces) else b""
        for number, piece in enumerate(_after_lead(self.body)):
            packed += packer.compress(piece)
            if len(packed) > _AT_ONCE:
                transport.write(b"%x\r\n%b\r\n" % (len(packed), packed))
                packed = b""
            await _turn(request, transport, number)
        packed += packer.flush()
        transport.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(packed), packed))

    async def write_eof(self) -> None:
        """Everything has been written by ``prepare``."""


def _after_lead(body: bytes | Pieces | Stream) -> Iterable[bytes | memoryview]:
    assert not isinstance(body, Stream)
    return sliced(body) if isinstance(body, bytes) else body.rest


async def _turn(request: BaseRequest, transport: asyncio.Transport, number: int) -> None:
    """Let the connection take what it was given, and others have their turn. Raises ConnectionError when it is gone or stuck."""
    if request.protocol.writing_paused:
        try:
            async with asyncio.timeout(STALLED_SECONDS):
                await request.writer.drain()
        except TimeoutError:
            transport.abort()
            raise ConnectionResetError("the client does not read its answer") from None
        await take_turn()  # many connections may have become free at once
    elif number % _TURN == _TURN - 1:
        await take_turn()
    if transport.is_closing():
        raise ConnectionResetError("the client went away")


def _one_line(value: str) -> str:
    return value.replace("\r", " ").replace("\n", " ")


STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_GZIP_FORMAT = 31  # zlib's number for the largest window and a gzip header
_GZIPPED = b"\r\nContent-Encoding: gzip\r\nVary: Accept-Encoding\r\nTransfer-Encoding: chunked\r\n"

"""Answers on the wire: head and body in one write, because aiohttp's own Response costs more than the rest of a GET.

Endpoints return a :class:`Reply` (or, for streams, any aiohttp StreamResponse they have already written); ``chain`` finishes it.
"""

import time
from collections.abc import Iterable
from email.utils import formatdate
from http import HTTPStatus
from typing import Any, Protocol

from aiohttp.web_request import BaseRequest

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
_DRAIN_ABOVE = 64 * 1024


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

    __slots__ = ("body", "content_type", "headers", "keep_alive", "status", "trailer")

    def __init__(
        self,
        status: int,
        body: bytes = b"",
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

    def head(self) -> bytes:
        lines = [
            STATUS_LINES.get(self.status) or f"HTTP/1.1 {self.status} \r\n".encode(),
            self.trailer,
            b"Content-Type: ",
            self.content_type.encode(),
            b"\r\nContent-Length: %d\r\n" % len(self.body),
        ]
        for name, value in self.headers:
            lines.append(f"{name}: {_one_line(value)}\r\n".encode())
        if not self.keep_alive:
            lines.append(b"Connection: close\r\n")
        lines.append(b"\r\n")
        return b"".join(lines)

    async def prepare(self, request: BaseRequest) -> None:
        if not request.keep_alive:
            self.keep_alive = False
        transport = request.transport
        if transport is None:
            return
        head = self.head()
        if request.method == "HEAD" or not self.body:
            transport.write(head)
        elif len(self.body) < _DRAIN_ABOVE:
            transport.write(head + self.body)
        else:
            transport.write(head)
            transport.write(self.body)
            await request.writer.drain()

    async def write_eof(self) -> None:
        """Everything has been written by ``prepare``."""


def _one_line(value: str) -> str:
    return value.replace("\r", " ").replace("\n", " ")


STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}

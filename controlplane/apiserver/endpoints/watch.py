"""WATCH: the cacher's ready frames written to the connection as HTTP chunks, until time is up or the client falls behind.

A slow client is bounded twice: what its connection has not taken makes this loop wait, and then the cacher's queue for it
fills and is closed. The source never waits.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import orjson
from aiohttp.web_request import BaseRequest

from apimachinery.codecs import negotiate, protobuf
from apimachinery.codecs.negotiate import MediaType
from apimachinery.errors import StatusError
from controlplane.apiserver.endpoints import read_socket, table
from controlplane.apiserver.endpoints.options import timeout_seconds, watch_options
from controlplane.apiserver.endpoints.respond import PARTIAL, accepted
from controlplane.apiserver.endpoints.scope import Scope
from controlplane.apiserver.storage.interface import Watch, WatchFrame
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.reply import STATUS_LINES, Answer

BUFFERED = 256 * 1024  # bytes a connection may hold before its watch waits for it
STALLED_SECONDS = 30.0  # how long it may then take nothing
MIN_TIMEOUT = 1800  # seconds; without timeoutSeconds a watch lasts between this and twice this

Line = Callable[[WatchFrame], bytes]


class OpenWatches:
    """Every stream of this server, so that a drain can end them; also counts them for metrics."""

    def __init__(self) -> None:
        self._open: dict[Watch, str] = {}

    @contextlib.contextmanager
    def holding(self, watch: Watch, resource: str) -> Iterator[None]:
        self._open[watch] = resource
        try:
            yield
        finally:
            del self._open[watch]

    def counts(self) -> dict[str, int]:
        counted: dict[str, int] = {}
        for resource in self._open.values():
            counted[resource] = counted.get(resource, 0) + 1
        return counted

    def close_all(self) -> None:
        for watch in list(self._open):
            watch.close()


class WatchAnswer:
    """An answer that lasts: aiohttp's connection calls ``prepare``, which returns when the watch is over."""

    status = 200
    keep_alive: bool | None = True

    def __init__(
        self, watch: Watch, line: Line, content_type: bytes, seconds: float, open_watches: OpenWatches, resource: str
    ) -> None:
        self._watch, self._line, self._content_type, self._seconds = watch, line, content_type, seconds
        self._open, self._resource = open_watches, resource
        self.trailer = b""
        self.on_end: Callable[[], None] | None = None

    async def prepare(self, request: BaseRequest) -> None:
        self.keep_alive = request.keep_alive
        transport = request.transport
        timer = asyncio.get_running_loop().call_later(self._seconds, self._watch.close)
        try:
            with self._open.holding(self._watch, self._resource):
                if transport is not None:
                    transport.write(self._head())
                    await self._stream(request, transport)
        finally:
            timer.cancel()
            self._watch.close()
            if self.on_end is not None:
                self.on_end()

    def _head(self) -> bytes:
        connection = b"" if self.keep_alive else b"Connection: close\r\n"
        kind = b"Content-Type: %b\r\n" % self._content_type
        return b"".join((STATUS_LINES[200], self.trailer, kind, b"Transfer-Encoding: chunked\r\n", connection, b"\r\n"))

    async def _stream(self, request: BaseRequest, transport: asyncio.Transport) -> None:
        line_of = self._line
        while frames := await self._watch.batch():
            for body in _grouped([line_of(frame) for frame in frames]):
                transport.write(b"%x\r\n%b\r\n" % (len(body), body))
                if transport.get_write_buffer_size() > BUFFERED and not await self._drained(request):
                    transport.abort()
                    return
                if transport.is_closing():
                    return
        transport.write(b"0\r\n\r\n")

    async def _drained(self, request: BaseRequest) -> bool:
        try:
            async with asyncio.timeout(STALLED_SECONDS):
                await request.writer.drain()
        except (TimeoutError, ConnectionError):
            return False
        return True

    async def write_eof(self) -> None:
        """The last chunk has been written by ``prepare``."""


def _grouped(lines: Sequence[bytes]) -> Iterator[bytes]:
    """As few writes as possible (TLS and the kernel cost per call, not per byte), none much larger than the buffer."""
    if len(lines) == 1:
        yield lines[0]
        return
    group: list[bytes] = []
    size = 0
    for line in lines:
        if group and size + len(line) > BUFFERED:
            yield b"".join(group)
            group, size = [], 0
        group.append(line)
        size += len(line)
    if group:
        yield b"".join(group)


async def watch(call: Call, scope: Scope, open_watches: OpenWatches) -> Answer:
    """Raises StatusError while nothing has been sent; later trouble is an ERROR event."""
    wanted = accepted(call, ("", "Table", PARTIAL))
    seconds = timeout_seconds(call.query) or MIN_TIMEOUT * (1 + random.random())  # noqa: S311 - spreads reconnects
    options = watch_options(call.query, scope.strategy, call.info.name, seconds)
    if read_socket.asked(call):
        read_socket.key_of(call)
    try:
        stream: Watch = await scope.store.watch(call.info.namespace, options)
    except StatusError as problem:
        if problem.code != 410:
            raise
        stream = _ErrorOnly(problem)
    if call.on_caught_up is not None:
        stream.when_caught_up(call.on_caught_up)
    if read_socket.asked(call):
        return await _over_socket(call, scope, stream, wanted, seconds, open_watches)
    content_type = f"{negotiate.PROTOBUF};stream=watch" if wanted.name == negotiate.PROTOBUF else negotiate.JSON
    return WatchAnswer(stream, line_maker(call, scope, wanted), content_type.encode(), seconds, open_watches, scope.info.plural)


async def _over_socket(
    call: Call, scope: Scope, stream: Watch, wanted: MediaType, seconds: float, open_watches: OpenWatches
) -> Answer:
    """One event in each message: text, or binary where the events are protobuf."""
    line_of = line_maker(call, scope, wanted)

    async def lines() -> AsyncIterator[bytes]:
        while frames := await stream.batch():
            for frame in frames:
                yield line_of(frame)

    timer = asyncio.get_running_loop().call_later(seconds, stream.close)
    try:
        with open_watches.holding(stream, scope.info.plural):
            return await read_socket.send(call, lines(), "", text=wanted.name != negotiate.PROTOBUF)
    finally:
        timer.cancel()
        stream.close()


def line_maker(call: Call, scope: Scope, wanted: MediaType) -> Line:
    """How a frame becomes a line: as it is, or wrapped as Table or PartialObjectMetadata."""
    if wanted.as_kind == "Table":
        headings = [True]

        def as_table(frame: WatchFrame) -> bytes:
            if frame.type == "ERROR":
                return frame.line
            entries = [] if frame.type == "BOOKMARK" else [frame.entry]
            value = table.of_entries(scope.strategy, entries, call, str(frame.revision), headings=headings[0])
            headings[0] = False
            return _line(frame.type, value)

        return as_table
    if wanted.as_kind == PARTIAL:
        return lambda frame: frame.line if frame.type == "ERROR" else _line(frame.type, table.partial(frame.entry.decode()))
    if wanted.name == negotiate.PROTOBUF:
        return as_protobuf
    return lambda frame: frame.line


def as_protobuf(frame: WatchFrame) -> bytes:
    """For clients that take nothing else; encoded for each watcher."""
    obj = orjson.loads(frame.line)["object"]
    return protobuf.watch_frame(frame.type, protobuf.encode(obj) or b"")


def _line(kind: str, value: dict[str, Any]) -> bytes:
    return orjson.dumps({"type": kind, "object": value}) + b"\n"


class _ErrorOnly:
    """A watch whose only event says why there is none: how upstream reports a resourceVersion that is too old."""

    def __init__(self, problem: StatusError) -> None:
        self._frames: list[WatchFrame] = [_ErrorFrame(problem)]

    async def __aiter__(self) -> AsyncIterator[WatchFrame]:
        for frame in await self.batch():
            yield frame

    async def batch(self) -> Sequence[WatchFrame]:
        frames, self._frames = self._frames, []
        return frames

    def when_caught_up(self, act: Callable[[], None]) -> None:
        act()

    def close(self) -> None:
        """Ends by itself."""


class _ErrorFrame:
    type = "ERROR"
    revision = 0

    def __init__(self, problem: StatusError) -> None:
        self._line = _line("ERROR", problem.status)

    @property
    def line(self) -> bytes:
        return self._line

    @property
    def entry(self) -> Any:
        raise AttributeError("an error carries no object")

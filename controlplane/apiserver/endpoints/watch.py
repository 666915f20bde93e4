"""WATCH: the cacher's ready frames written to the connection as HTTP chunks, until time is up or the client falls behind.

A slow client is bounded twice: what its connection has not taken makes this loop wait, and then the cacher's queue for it
fills and is closed. The source never waits.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any

import orjson
from aiohttp.web_request import BaseRequest

from apimachinery.codecs import negotiate, protobuf
from apimachinery.codecs.negotiate import MediaType
from apimachinery.errors import StatusError
from controlplane.apiserver.endpoints import read_socket, table
from controlplane.apiserver.endpoints.fanout import Fanout
from controlplane.apiserver.endpoints.options import timeout_seconds, watch_options
from controlplane.apiserver.endpoints.respond import PARTIAL, accepted
from controlplane.apiserver.endpoints.scope import Scope
from controlplane.apiserver.storage import frames
from controlplane.apiserver.storage.frames import chunked
from controlplane.apiserver.storage.interface import PushedWatch, Watch, WatchFrame
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.reply import STATUS_LINES, Answer
from controlplane.apiserver.wire.turns import take_turn

BUFFERED = 256 * 1024  # bytes a connection may hold before its watch waits for it
ALL_BUFFERED = 64 << 20  # the same for all watches together; each may hold its share, but at least
LEAST_BUFFERED = 16 * 1024
MANY = 50  # frames that are not written before others have had their turn
STALLED_SECONDS = 30.0  # how long it may then take nothing
MIN_TIMEOUT = 1800  # seconds; without timeoutSeconds a watch lasts between this and twice this

Line = Callable[[WatchFrame], bytes]
_LINE: Line = attrgetter("line")
_CHUNK: Line = attrgetter("chunk")


class OpenWatches:
    """Every stream of this server, so that a drain can end them; also counts them for metrics."""

    def __init__(self) -> None:
        self._open: dict[Watch, str] = {}
        self.fanout = Fanout()

    @contextlib.contextmanager
    def holding(self, watch: Watch, resource: str) -> Iterator[None]:
        self._open[watch] = resource
        try:
            yield
        finally:
            del self._open[watch]

    @property
    def buffer(self) -> int:
        """Bytes that one connection may hold, while there are so many."""
        return max(min(BUFFERED, ALL_BUFFERED // max(len(self._open), 1)), LEAST_BUFFERED)

    def counts(self) -> dict[str, int]:
        counted: dict[str, int] = {}
        for resource in self._open.values():
            counted[resource] = counted.get(resource, 0) + 1
        return counted

    def close_all(self) -> None:
        for watch in list(self._open):
            watch.close()


class WatchAnswer:
    """An answer that lasts: aiohttp's connection calls ``prepare``, which returns when the watch is over.

    While the connection takes all it is given, ``send`` writes to it, called by the ``fanout``, and the task of the request
    sleeps. It wakes up to wait for a connection that is full, and to end the answer.
    """

    status = 200

    def __init__(
        self, watch: Watch, chunk: Line, content_type: bytes, seconds: float, open_watches: OpenWatches, resource: str
    ) -> None:
        self._watch, self._chunk, self._content_type, self._seconds = watch, chunk, content_type, seconds
        self._pushed = watch if isinstance(watch, PushedWatch) else None
        self._open, self._resource = open_watches, resource
        self.keep_alive: bool | None = True
        self.trailer = b""
        self.on_end: Callable[[], None] | None = None
        self.served = 0.0
        self._transport: asyncio.Transport | None = None
        self._asleep: asyncio.Future[None] | None = None
        self._left: Iterator[bytes] = iter(())  # what was taken from the watch and not yet given to the connection

    async def prepare(self, request: BaseRequest) -> None:
        self.keep_alive = request.keep_alive
        self._transport = transport = request.transport
        timer = asyncio.get_running_loop().call_later(self._seconds, self._watch.close)
        connection: Any = request.protocol
        connection.on_gone = self._watch.close
        try:
            with self._open.holding(self._watch, self._resource):
                if transport is not None:
                    transport.write(self._head())
                    await self._stream(request, transport)
        finally:
            connection.on_gone = None
            timer.cancel()
            self._watch.close()
            on_end, self.on_end = self.on_end, None
            if on_end is not None:
                on_end()

    def _head(self) -> bytes:
        connection = b"" if self.keep_alive else b"Connection: close\r\n"
        kind = b"Content-Type: %b\r\n" % self._content_type
        return b"".join((STATUS_LINES[200], self.trailer, kind, b"Transfer-Encoding: chunked\r\n", connection, b"\r\n"))

    async def _stream(self, request: BaseRequest, transport: asyncio.Transport) -> None:
        pushed = self._pushed
        ready: Sequence[WatchFrame] = ()
        while True:
            if pushed is not None and pushed.push_to(self._on_ready):
                await self._sleep(pushed)
                ready = ()
            elif ready := await self._watch.batch():
                self._left = _grouped(self._chunk, ready)
            else:
                break
            if _waiting_in(transport) > self._open.buffer and not await self._drained(request):
                transport.abort()
                return
            while self._give(transport):
                if not await self._drained(request):
                    transport.abort()
                    return
            if transport.is_closing():
                return
            if len(ready) >= MANY:
                await take_turn()  # the present state of a large collection is many batches
        if not transport.is_closing():
            transport.write(b"0\r\n\r\n")

    async def _sleep(self, watch: PushedWatch) -> None:
        self._asleep = asyncio.get_running_loop().create_future()
        try:
            await self._asleep
        finally:
            self._asleep = None
            watch.push_to(None)

    def _on_ready(self) -> None:
        self._open.fanout.add(self)

    def send(self) -> None:
        """See ``fanout.Sender``."""
        watch, transport, asleep = self._pushed, self._transport, self._asleep
        if asleep is None or asleep.done() or transport is None or watch is None:
            return
        try:
            ready = watch.take()
            if len(ready) == 1:
                transport.write(self._chunk(ready[0]))
                full = _waiting_in(transport) > self._open.buffer
            else:
                self._left = _grouped(self._chunk, ready)
                full = self._give(transport)
        except Exception as problem:
            asleep.set_exception(problem)
            return
        if full or not ready or transport.is_closing():
            watch.push_to(None)
            asleep.set_result(None)
        elif len(ready) > 1 and not watch.push_to(self._on_ready):  # more has come than is taken at once
            self._on_ready()

    def _give(self, transport: asyncio.Transport) -> bool:
        """Write what is left, until the connection is full; whether it is."""
        for body in self._left:
            transport.write(body)
            if _waiting_in(transport) > self._open.buffer:
                return True
        return False

    async def _drained(self, request: BaseRequest) -> bool:
        try:
            async with asyncio.timeout(STALLED_SECONDS):
                await request.writer.drain()
        except (TimeoutError, ConnectionError):
            return False
        return True

    async def write_eof(self) -> None:
        """The last chunk has been written by ``prepare``."""


def _grouped(chunk: Line, ready: Sequence[WatchFrame]) -> Iterator[bytes]:
    """As few writes as possible (TLS and the kernel cost per call, not per byte), none much larger than the buffer."""
    group: list[bytes] = []
    size = 0
    for frame in ready:
        made = chunk(frame)
        if group and size + len(made) > BUFFERED:
            yield b"".join(group)
            group, size = [], 0
        group.append(made)
        size += len(made)
    if group:
        yield b"".join(group)


async def watch(call: Call, scope: Scope, open_watches: OpenWatches) -> Answer:
    """Raises StatusError while nothing has been sent; later trouble is an ERROR event."""
    wanted = accepted(call, ("", "Table", PARTIAL), scope.strategy.encodings)
    seconds = timeout_seconds(call.query) or MIN_TIMEOUT * (1 + random.random())  # noqa: S311 - spreads reconnects
    streamed_lists = scope.features.enabled("WatchList")
    options = watch_options(call.query, scope.strategy, call.info.name, seconds, streamed_lists=streamed_lists)
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
    chunk = chunk_maker(call, scope, wanted)
    return WatchAnswer(stream, chunk, content_type.encode(), seconds, open_watches, scope.info.plural)


async def _over_socket(
    call: Call, scope: Scope, stream: Watch, wanted: MediaType, seconds: float, open_watches: OpenWatches
) -> Answer:
    """One event in each message: text, or binary where the events are protobuf."""
    line_of = line_maker(call, scope, wanted)

    async def lines() -> AsyncIterator[bytes]:
        while ready := await stream.batch():
            for frame in ready:
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
    if wanted.as_kind == PARTIAL and wanted.name == negotiate.PROTOBUF:
        return lambda frame: frame.form("protobuf metadata", _as_packed_partial)
    if wanted.as_kind == PARTIAL:
        return lambda frame: frame.form("partial", _as_partial)
    if wanted.name == negotiate.PROTOBUF:
        return lambda frame: frame.form("protobuf", _as_protobuf)
    return _LINE


def chunk_maker(call: Call, scope: Scope, wanted: MediaType) -> Line:
    """How a frame becomes a chunk of the answer: the usual form is shared by all who get it."""
    if not wanted.as_kind and wanted.name != negotiate.PROTOBUF:
        return _CHUNK
    line_of = line_maker(call, scope, wanted)
    return lambda frame: chunked(line_of(frame))


def _as_partial(frame: WatchFrame) -> bytes:
    return frame.line if frame.type == "ERROR" else _line(frame.type, table.partial(frame.entry.decode()))


def _as_protobuf(frame: WatchFrame) -> bytes:
    return _packed(frame.type, frame.entry.decode())


def _as_packed_partial(frame: WatchFrame) -> bytes:
    obj = frame.entry.decode()
    return _packed(frame.type, obj if frame.type == "ERROR" else table.partial(obj))


def _packed(kind: str, obj: dict[str, Any]) -> bytes:
    return protobuf.watch_frame(kind, protobuf.encode(obj) or b"")


def _waiting_in(transport: asyncio.Transport) -> int:
    """Bytes that the connection has not taken yet. Since Python 3.12 a closed TLS transport has nothing left to ask."""
    return 0 if transport.is_closing() else transport.get_write_buffer_size()


def _line(kind: str, value: dict[str, Any]) -> bytes:
    return orjson.dumps({"type": kind, "object": value}) + b"\n"


class _ErrorOnly:
    """A watch whose only event says why there is none: how upstream reports a resourceVersion that is too old."""

    def __init__(self, problem: StatusError) -> None:
        self._frames: list[WatchFrame] = [frames.error(problem)]

    async def __aiter__(self) -> AsyncIterator[WatchFrame]:
        for frame in await self.batch():
            yield frame

    async def batch(self) -> Sequence[WatchFrame]:
        ready, self._frames = self._frames, []
        return ready

    def when_caught_up(self, act: Callable[[], None]) -> None:
        act()

    def close(self) -> None:
        """Ends by itself."""

"""A SPDY connection on a transport: streams that are read, written and half-closed by coroutines.

It is a protocol, not a task: bytes are parsed where the transport delivers them and land in the queue of their stream. A
stream whose reader is slow stops the whole connection once it holds ``HIGH_WATER`` bytes, as TCP would; nothing is dropped.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping

from component.streams import spdy
from component.streams.duplex import HIGH_WATER, FlowProtocol


class StreamClosedError(ConnectionError):
    """The stream was reset, refused, or its connection is gone."""


class Stream:
    """One stream of a session, both directions. Fulfils ``channels.Channel``."""

    def __init__(self, session: "Session", number: int, headers: Mapping[str, str]) -> None:
        self.number = number
        self.headers = headers
        self._session = session
        self._chunks: deque[bytes] = deque()
        self.held = 0
        self._ended = False
        self._reset = False
        self._replied = asyncio.Event()
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()

    async def read(self) -> bytes:
        """The next chunk, or ``b""`` after the peer has closed its side, or everything.

        A reset is an end like any other here: upstream's servers reset all streams when a command is over. Whether it
        went well is told by the status on the error stream.
        """
        while not self._chunks:
            if self._ended:
                return b""
            self._readable.clear()
            await self._readable.wait()
        chunk = self._chunks.popleft()
        self.held -= len(chunk)
        self._session.taken(self, len(chunk))
        return chunk

    async def read_all(self, limit: int = 1 << 20) -> bytes:
        """Everything until the end, at most ``limit`` bytes; the rest is read and dropped."""
        parts, size = [], 0
        while chunk := await self.read():
            parts.append(chunk[: max(0, limit - size)])
            size += len(chunk)
        return b"".join(parts)

    async def write(self, data: bytes) -> None:
        """Send and wait for room. Raises StreamClosedError."""
        view: bytes | memoryview = data
        while view:
            self._check()
            room = self._session.core.capacity(self.number)
            if room == 0:
                self._writable.clear()
                await self._writable.wait()
                continue
            self._session.transmit(self.number, view[:room])
            view = view[room:] if room < len(view) else b""
            await self._session.room()
        self._check()

    def close_write(self) -> None:
        """Tell the peer that no more comes. Idempotent."""
        if not self._reset and not self._session.lost:
            self._session.finish(self.number)

    def reset(self) -> None:
        """Drop the stream both ways."""
        self._session.core.reset(self.number)
        self._session.flush()
        self.on_reset()

    async def wait_accepted(self) -> None:
        await self._replied.wait()
        self._check()

    def _check(self) -> None:
        if self._reset or self._session.lost:
            raise StreamClosedError("the stream was reset" if self._reset else "the connection is gone")

    # Called by the session.

    def on_reply(self) -> None:
        self._replied.set()

    def on_data(self, data: bytes, *, fin: bool) -> None:
        if data:
            self._chunks.append(data)
            self.held += len(data)
        self._ended |= fin
        self._readable.set()

    def on_window(self) -> None:
        self._writable.set()

    def on_reset(self) -> None:
        self._reset = True
        self.on_lost()

    def on_lost(self) -> None:
        self._ended = True
        for event in (self._replied, self._readable, self._writable):
            event.set()


class Session(FlowProtocol):
    """A SPDY connection. ``accept`` answers streams that the peer opens, in order; ``open`` opens one.

    Incoming streams are replied to at once: what they are for is in their headers, and a peer waits for the reply.
    """

    def __init__(self, *, client: bool, on_lost: Callable[[Exception | None], object] | None = None) -> None:
        super().__init__(on_lost)
        self.core = spdy.Connection(client=client)
        self._streams: dict[int, Stream] = {}
        self._incoming: asyncio.Queue[Stream | None] = asyncio.Queue()  # bounded by spdy.MAX_STREAMS

    # ------------------------------------------------------------------ for users

    async def open(self, headers: Mapping[str, str], *, fin: bool = False) -> Stream:
        """Open a stream and wait for the peer's consent. Raises StreamClosedError."""
        if self.lost:
            raise StreamClosedError("the connection is gone")
        try:
            number = self.core.open(headers, fin=fin)
        except spdy.ProtocolError as error:
            raise StreamClosedError(str(error)) from error
        stream = self._streams[number] = Stream(self, number, dict(headers))
        self.flush()
        await stream.wait_accepted()
        return stream

    async def accept(self) -> Stream | None:
        """The next stream of the peer; None when the connection is gone."""
        if self.lost and self._incoming.empty():
            return None
        return await self._incoming.get()

    def go_away(self) -> None:
        self.core.go_away()
        self.flush()

    # ------------------------------------------------------------------ for streams

    def transmit(self, number: int, data: bytes | memoryview) -> None:
        try:
            self.core.send(number, data)
        except spdy.ProtocolError as error:
            raise StreamClosedError(str(error)) from error
        self.flush()

    def finish(self, number: int) -> None:
        try:
            self.core.send(number, b"", fin=True)
        except spdy.ProtocolError:
            return  # closed already
        self.flush()
        self._forget(number)

    def taken(self, stream: Stream, count: int) -> None:
        self.core.consumed(stream.number, count)
        self.flush()
        if self._reading_paused and all(other.held < HIGH_WATER // 2 for other in self._streams.values()):
            self.resume_reading()

    async def room(self) -> None:
        try:
            await self.drain()
        except ConnectionResetError as error:
            raise StreamClosedError(str(error)) from error

    def flush(self) -> None:
        if out := self.core.take():
            self.send(out)

    # ------------------------------------------------------------------ for the transport

    def data_received(self, data: bytes) -> None:
        try:
            events = self.core.receive(data)
        except spdy.ProtocolError:
            self.flush()
            self.close()
            return
        for event in events:
            self._handle(event)
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for stream in self._streams.values():
            stream.on_lost()
        self._streams.clear()
        self._incoming.put_nowait(None)

    def _forget(self, number: int) -> None:
        """Let go of a stream that has ended both ways. The core may be ahead of us: it has seen the whole batch."""
        if not self.core.is_open(number) and (stream := self._streams.pop(number, None)):
            stream.on_lost()

    def _handle(self, event: spdy.Event) -> None:
        match event:
            case spdy.DataReceived(number, data, fin):
                if stream := self._streams.get(number):
                    stream.on_data(data, fin=fin)
                    if fin:
                        self._forget(number)
                    if stream.held > HIGH_WATER:
                        self.pause_reading()
            case spdy.StreamOpened(number, headers, fin):
                stream = self._streams[number] = Stream(self, number, headers)
                self.core.reply(number)
                stream.on_reply()
                if fin:
                    stream.on_data(b"", fin=True)
                self._incoming.put_nowait(stream)
            case spdy.StreamReplied(number, _, fin):
                if stream := self._streams.get(number):
                    stream.on_reply()
                    if fin:
                        stream.on_data(b"", fin=True)
            case spdy.StreamReset(number, _):
                if stream := self._streams.pop(number, None):
                    stream.on_reset()
            case spdy.WindowOpened(number):
                for stream in list(self._streams.values()) if number == 0 else filter(None, [self._streams.get(number)]):
                    stream.on_window()
            case spdy.PongReceived() | spdy.GoneAway():
                pass

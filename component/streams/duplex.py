"""A transport as a stream of chunks, with back-pressure both ways. Everything in ``component.streams`` stands on this.

``asyncio.StreamReader`` would copy each byte twice and can neither be taken from aiohttp nor handed on; an asyncio protocol
can, by ``transport.set_protocol``, on uvloop and over TLS as well.
"""

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Callable, Sequence

HIGH_WATER = 256 * 1024


class FlowProtocol(asyncio.Protocol):
    """What all our protocols do about flow: stop reading when told, wait while the write buffer is full, note the end.

    ``on_lost`` is called once when the connection is gone; the former protocol of a hijacked transport needs it.
    """

    def __init__(self, on_lost: Callable[[Exception | None], object] | None = None) -> None:
        self._transport: asyncio.Transport | None = None
        self._on_lost = on_lost
        self._reading_paused = False
        self._room: asyncio.Event = asyncio.Event()
        self._room.set()
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self._transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._room.set()
        if self._on_lost is not None:
            on_lost, self._on_lost = self._on_lost, None
            on_lost(exc)

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def pause_reading(self) -> None:
        if not self._reading_paused and self._transport is not None and not self.lost:
            self._reading_paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._reading_paused and self._transport is not None:
            self._reading_paused = False
            if not self.lost:
                self._transport.resume_reading()

    def send(self, chunks: Sequence[bytes]) -> None:
        """Queue chunks for the peer; silently nothing once the connection is gone."""
        if self._transport is not None and not self.lost:
            self._transport.writelines(chunks)

    async def drain(self) -> None:
        """Wait until the write buffer has room. Raises ConnectionResetError when the connection is gone."""
        if not self._room.is_set():
            await self._room.wait()
        if self.lost:
            raise ConnectionResetError("the connection is gone")

    def close(self) -> None:
        """Send what is queued, then close. Idempotent."""
        if self._transport is not None:
            self.resume_reading()  # a paused transport would not notice that the peer hung up
            self._transport.close()

    def abort(self) -> None:
        """Close at once, dropping what is queued."""
        if self._transport is not None:
            self._transport.abort()

    def keep_alive(self) -> None:
        """Let the kernel find out about a peer that has vanished: a silent stream may last for days."""
        connection = self._transport.get_extra_info("socket") if self._transport is not None else None
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def hand_over(self, successor: "FlowProtocol", rest: bytes = b"") -> None:
        """Make ``successor`` the protocol of this transport from here on, and feed it ``rest`` first."""
        assert self._transport is not None
        successor._on_lost, self._on_lost = self._on_lost, None
        self.resume_reading()
        self._transport.set_protocol(successor)
        successor.connection_made(self._transport)
        if not self._room.is_set():
            successor.pause_writing()
        if self.lost:
            successor.connection_lost(None)
        elif rest:
            successor.data_received(rest)


class Duplex(FlowProtocol):
    """Bytes, in the chunks the transport reads. One reader and one writer at a time."""

    def __init__(self, on_lost: Callable[[Exception | None], object] | None = None) -> None:
        super().__init__(on_lost)
        self._chunks: deque[bytes] = deque()
        self._held = 0
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None

    def data_received(self, data: bytes) -> None:
        self._chunks.append(data)
        self._held += len(data)
        if self._held > HIGH_WATER:
            self.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        self._ended = True
        self._wake()
        return False  # the transport sends what is queued and closes; no protocol of ours half-closes connections

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        super().connection_lost(exc)
        self._wake()

    async def read(self) -> bytes:
        """The next chunk, or ``b""`` at the end."""
        while not self._chunks:
            if self._ended:
                return b""
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        chunk = self._chunks.popleft()
        self._held -= len(chunk)
        if self._held < HIGH_WATER // 2:
            self.resume_reading()
        return chunk

    async def write(self, data: bytes) -> None:
        """Send and wait for room. Raises ConnectionResetError when the connection is gone."""
        self.send((data,))
        await self.drain()

    def unread(self, data: bytes) -> None:
        """Put bytes back in front."""
        if data:
            self._chunks.appendleft(data)
            self._held += len(data)

    def switch(self, successor: FlowProtocol) -> None:
        """Hand the transport over together with what was received and not yet read."""
        rest = b"".join(self._chunks)
        self._chunks.clear()
        self._held = 0
        self.hand_over(successor, rest)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


async def splice(one: Duplex, other: Duplex) -> None:
    """Carry bytes both ways until either side ends; then close both, letting queued bytes out."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_carry(one, other)), group.create_task(_carry(other, one))]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
    finally:
        one.close()
        other.close()


async def _carry(source: Duplex, sink: Duplex) -> None:
    """Until ``source`` ends. A sink that is gone is no end: what it sent before may still be on its way to ``source``."""
    while data := await source.read():
        with contextlib.suppress(ConnectionResetError):
            await sink.write(data)

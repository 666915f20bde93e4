"""Sessions over a transport that the test holds in its hand."""

import asyncio

import pytest

from component.streams import spdy
from component.streams.duplex import HIGH_WATER
from component.streams.session import Session, Stream, StreamClosedError


class Wire(asyncio.Transport):
    """Remembers what is written and whether reading is paused."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.paused = self.closed = False

    def write(self, data: object) -> None:
        self.sent += bytes(data)  # type: ignore[call-overload]

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def close(self) -> None:
        self.closed = True


class Peer:
    """A client session and the bare SPDY server at the other end of its wire."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.session = Session(client=True)
        self.session.connection_made(self.wire)
        self.core = spdy.Connection(client=False)

    def read(self) -> list[spdy.Event]:
        sent, self.wire.sent = self.wire.sent, b""
        return self.core.receive(sent)

    def answer(self) -> None:
        self.session.data_received(b"".join(self.core.take()))

    async def open(self) -> Stream:
        task = asyncio.ensure_future(self.session.open({"streamType": "error"}))
        await asyncio.sleep(0)
        for event in self.read():
            assert isinstance(event, spdy.StreamOpened)
            self.core.reply(event.stream)
        self.answer()
        return await task


@pytest.fixture
async def peer() -> Peer:
    return Peer()


async def test_data_and_reset_in_one_batch_lose_nothing(peer: Peer) -> None:
    stream = await peer.open()
    peer.core.send(stream.number, b"status")
    peer.core.reset(stream.number)
    peer.answer()
    assert await stream.read_all() == b"status"
    with pytest.raises(StreamClosedError):
        await stream.write(b"x")


async def test_reset_wakes_a_reader(peer: Peer) -> None:
    stream = await peer.open()
    task = asyncio.ensure_future(stream.read())
    await asyncio.sleep(0)
    peer.core.reset(stream.number)
    peer.answer()
    assert await task == b""


async def test_refused_streams_raise(peer: Peer) -> None:
    task = asyncio.ensure_future(peer.session.open({}))
    await asyncio.sleep(0)
    peer.read()
    peer.core.reset(1, spdy.REFUSED_STREAM)
    peer.answer()
    with pytest.raises(StreamClosedError):
        await task


async def test_slow_reader_stops_the_transport_and_a_quick_one_starts_it(peer: Peer) -> None:
    stream = await peer.open()
    while not peer.wire.paused:
        peer.core.send(stream.number, b"x" * 60_000)
        peer.answer()
    assert HIGH_WATER < stream.held < 2 * HIGH_WATER
    while stream.held:
        await stream.read()
    assert not peer.wire.paused


async def test_writers_wait_for_windows_of_a_peer_that_keeps_them(peer: Peer) -> None:
    stream = await peer.open()
    for receive in (peer.core.receive, peer.session.data_received):
        receive(bytes.fromhex("800300040000000400000000"))  # SETTINGS: both keep windows
    task = asyncio.ensure_future(stream.write(b"x" * 200_000))
    received = 0
    while not task.done():
        await asyncio.sleep(0)
        for event in peer.read():
            if isinstance(event, spdy.DataReceived):
                received += len(event.data)
                peer.core.consumed(event.stream, len(event.data))
        assert received <= 200_000
        peer.answer()
    await task
    assert received == 200_000


async def test_lost_connection_ends_everything(peer: Peer) -> None:
    stream = await peer.open()
    peer.session.connection_lost(None)
    assert await stream.read() == b""
    assert await peer.session.accept() is None
    with pytest.raises(StreamClosedError):
        await stream.write(b"x")
    with pytest.raises(StreamClosedError):
        await peer.session.open({})


async def test_protocol_errors_close_the_connection(peer: Peer) -> None:
    peer.session.data_received(b"\x80\x02\0\1\0\0\0\0")
    assert peer.wire.closed

import asyncio

import pytest

from component.streams.duplex import HIGH_WATER, Duplex, splice
from tests.unit.component.streams.test_session import Wire


def duplex() -> tuple[Duplex, Wire]:
    made, wire = Duplex(), Wire()
    made.connection_made(wire)
    return made, wire


async def test_reads_in_order_and_then_the_end() -> None:
    one, _ = duplex()
    one.data_received(b"a")
    one.data_received(b"b")
    one.connection_lost(None)
    assert [await one.read() for _ in range(3)] == [b"a", b"b", b""]


async def test_slow_readers_stop_the_transport() -> None:
    one, wire = duplex()
    for _ in range(HIGH_WATER // 1000 + 1):
        one.data_received(b"x" * 1000)
    assert wire.paused
    while wire.paused:
        await one.read()
    assert one._held < HIGH_WATER // 2


async def test_writers_wait_for_room() -> None:
    one, _ = duplex()
    one.pause_writing()
    task = asyncio.ensure_future(one.write(b"x"))
    await asyncio.sleep(0)
    assert not task.done()
    one.resume_writing()
    await task
    one.connection_lost(None)
    with pytest.raises(ConnectionResetError):
        await one.write(b"x")


async def test_splice_delivers_what_a_dead_end_had_sent() -> None:
    """The client's last bytes meet a closed backend, whose own last bytes are still to be carried."""
    client, to_client = duplex()
    backend, _ = duplex()
    for number in range(5):
        backend.data_received(b"%d" % number)
    backend.connection_lost(None)
    client.data_received(b"window update")
    await splice(client, backend)
    assert to_client.sent == b"01234"
    assert to_client.closed


async def test_switch_takes_unread_bytes_along() -> None:
    one, wire = duplex()
    one.data_received(b"rest")
    other = Duplex()
    wire.set_protocol = lambda protocol: None  # type: ignore[method-assign]
    one.switch(other)
    assert await other.read() == b"rest"

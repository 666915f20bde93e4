"""What one client does leaves room for the others."""

import asyncio
import socket
from typing import Any

import dns.message
import pytest

from netproxy.dns import server, upstream, wire
from netproxy.dns.upstream import Address
from tests.support.dns import Zone

NAME = "www.example.com"


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Until it is set, no resolver answers."""
    free = asyncio.Event()

    async def exchange(address: Address, query: wire.Query, seconds: float) -> dns.message.Message:
        await free.wait()
        raise upstream.UpstreamError("silent")

    monkeypatch.setattr(upstream, "exchange", exchange)
    return free


async def test_one_address_cannot_take_every_waiting_place(silent: asyncio.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "WAITING_OF_ONE", 2)
    zone, sent = Zone(), list[str]()
    zone.forwarder.use([Address("127.0.0.1", 1)])

    class Transport:
        def sendto(self, data: bytes, addr: tuple[str, int]) -> None:
            sent.append(addr[0])

    door = server.Datagrams(zone.responder)
    door.connection_made(Transport())  # type: ignore[arg-type]
    query = dns.message.make_query(NAME, "A").to_wire()
    for source in ("10.244.0.1", "10.244.0.1", "10.244.0.1", "10.244.0.2"):
        door.datagram_received(query, (source, 40000))
    silent.set()
    await asyncio.gather(*door._tasks)
    assert sorted(sent) == ["10.244.0.1", "10.244.0.1", "10.244.0.2"]
    door.datagram_received(query, ("10.244.0.1", 0))  # nobody can be answered there
    door.datagram_received(query, ("10.244.0.1", 40000))
    await asyncio.gather(*door._tasks)
    assert len(sent) == 4
    assert not door._by_source


async def test_one_address_cannot_hold_every_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CONNECTIONS_OF_ONE", 2)
    async with server.listening(Zone().responder, ["127.0.0.1"], 0) as bound:
        opened: list[Any] = [await asyncio.open_connection(*bound[0]) for _ in range(2)]
        for _, writer in opened:
            await _asked(writer, opened)
        reader, refused = await asyncio.open_connection(*bound[0])
        assert await reader.read() == b""
        refused.close()
        other, writer = await asyncio.open_connection(*bound[0], local_addr=("127.0.0.2", 0))
        await _asked(writer, [(other, writer)])
        for _, each in [*opened, (other, writer)]:
            each.close()


async def test_a_client_that_reads_no_answer_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "IDLE_SECONDS", 0.2)
    transports = list[asyncio.WriteTransport]()

    class Answering:
        def respond(self, data: bytes, door: server.Door) -> bytes:
            return bytes(wire.LARGEST)

    class Watched(server.Connections):
        async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            transports.append(writer.transport)
            await super().__call__(reader, writer)
            ended.set()

    ended = asyncio.Event()
    monkeypatch.setattr(server, "Connections", Watched)
    for says_goodbye in (False, True):
        ended.clear()
        async with server.listening(Answering(), ["127.0.0.1"], 0) as bound:  # type: ignore[arg-type]
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            client.setblocking(False)
            with client:
                await asyncio.get_running_loop().sock_connect(client, bound[0])
                # more than the kernel takes for somebody who does not read: part of the answers waits here
                client.send((b"\0\x0c" + bytes(12)) * 100)
                if says_goodbye:
                    client.shutdown(socket.SHUT_WR)
                await asyncio.wait_for(ended.wait(), 30)
                assert transports[-1].get_write_buffer_size() == 0


async def _asked(writer: asyncio.StreamWriter, opened: list[Any]) -> None:
    """A whole exchange, after which the server knows of the connection."""
    query = dns.message.make_query("cluster.local", "SOA").to_wire()
    writer.write(len(query).to_bytes(2, "big") + query)
    reader = next(each for each, other in opened if other is writer)
    answer = await reader.readexactly(int.from_bytes(await reader.readexactly(2), "big"))
    assert dns.message.from_wire(answer).answer

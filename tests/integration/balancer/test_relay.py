"""The balancer between real sockets: whole streams, half-closed ones, slow readers, servers that die, hang or drain."""

import asyncio
import contextlib
import signal
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import aiohttp
import pytest

from node.balancer import health
from node.balancer.relay import Relay
from node.balancer.servers import Servers, State
from tests.support.apiserver import running_apiserver
from tests.support.daemons import bench
from tests.support.etcd import running_etcd
from tests.support.ports import free_port

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def server(serve: Serve) -> AsyncIterator[int]:
    serving: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}

    async def tracked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving[writer] = asyncio.current_task()
        with contextlib.suppress(ConnectionError):
            await serve(reader, writer)

    async with await asyncio.start_server(tracked, "127.0.0.1", 0) as listener:
        yield listener.sockets[0].getsockname()[1]
        for writer in serving:
            writer.transport.abort()
        await asyncio.gather(*filter(None, serving.values()))


@contextlib.asynccontextmanager
async def balancer(*ports: int) -> AsyncIterator[tuple[int, Servers]]:
    servers = Servers([("127.0.0.1", port) for port in ports])
    async with asyncio.TaskGroup() as tasks:
        relay = Relay(servers, tasks)
        listener = await asyncio.get_running_loop().create_server(relay.client, "127.0.0.1", 0)
        try:
            yield listener.sockets[0].getsockname()[1], servers
        finally:
            listener.close()
            relay.close()
            async with asyncio.timeout(5):
                while relay._clients or any(server.closers for server in servers.all):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


def says(word: bytes) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(word)
        await reader.read(1)
        writer.close()

    return serve


async def hear(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        return await reader.read(10)
    finally:
        writer.close()


async def test_everything_arrives_in_both_directions_after_half_closing() -> None:
    sent = bytes(range(256)) * 40_000
    async with server(echo) as port, balancer(port) as (front, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", front)

        async def send() -> None:
            writer.write(sent)
            writer.write_eof()
            await writer.drain()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(send())
            received = await reader.read(-1)
        writer.close()
    assert received == sent


async def test_a_slow_reader_slows_the_sender_down() -> None:
    written = [0]

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()
                written[0] += 65536

    async with server(flood) as port, balancer(port) as (front, _):
        _, writer = await asyncio.open_connection("127.0.0.1", front, limit=1024)
        await asyncio.sleep(0.5)
        before = written[0]
        await asyncio.sleep(0.3)
        assert written[0] == before < 64 << 20, "the balancer holds what nobody takes"
        writer.transport.abort()


async def test_connections_are_spread_and_refused_ones_go_elsewhere() -> None:
    async with server(says(b"one")) as one, server(says(b"two")) as two, balancer(free_port(), one, two) as (front, servers):
        held = [await asyncio.open_connection("127.0.0.1", front) for _ in range(4)]
        assert sorted([await reader.read(3) for reader, _ in held]) == [b"one", b"one", b"two", b"two"]
        assert servers.all[0].state == State.DEAD
        for _, writer in held:
            writer.close()


async def test_nobody_there_closes_the_connection() -> None:
    async with balancer(free_port(), free_port()) as (front, _):
        assert await hear(front) == b""


async def test_a_server_that_dies_takes_its_connections_and_new_ones_go_on() -> None:
    async with server(says(b"two")) as two, contextlib.AsyncExitStack() as first:
        one = await first.enter_async_context(server(says(b"one")))
        async with balancer(one, two) as (front, servers):
            reader, writer = await asyncio.open_connection("127.0.0.1", front)
            assert await reader.read(3) == b"one"
            servers.report(servers.all[0], State.DEAD)
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(1), 2) == b""
            assert await hear(front) == b"two"
            writer.close()


async def test_health_of_a_real_server_and_of_none(tmp_path: Path) -> None:
    async with running_apiserver() as api, aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=0.5)) as session:
        servers = Servers([("127.0.0.1", api.port), ("127.0.0.1", free_port())])
        trusted = health.context(api.ca_file)
        assert (await health.look(servers.all[0], session, trusted))[0] == State.READY
        assert (await health.look(servers.all[1], session, trusted))[0] == State.DEAD
        assert (await health.look(servers.all[0], session, ssl.create_default_context()))[0] == State.DEAD, "a stranger"

        async def no_leader() -> None:
            await asyncio.sleep(60)

        api.running.health.add("etcd", no_leader)
        assert (await health.look(servers.all[0], session, trusted))[0] == State.DRAINING, "connections stay"

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(-1)
            writer.close()

        async with server(silent) as port:
            hung = Servers([("127.0.0.1", port)]).all[0]
            assert (await health.look(hung, session, trusted))[0] == State.DEAD


@pytest.mark.slow
def test_kubectl_through_the_balancer_while_servers_die_and_hang(tmp_path: Path) -> None:
    """As processes: two API servers on one etcd; kubectl is never told that something is wrong for longer than two seconds."""
    with contextlib.ExitStack() as stack:
        (tmp_path / "etcd").mkdir()
        etcd = stack.enter_context(running_etcd(tmp_path / "etcd"))
        made = stack.enter_context(bench(tmp_path / "cluster"))
        made.storage, ports = etcd.flags(), (free_port(), free_port())
        front, daemons = made.port, []
        for port in ports:
            made.port = port
            daemons.append(made.start_apiserver())
        made.port = front
        flags = [f"--servers={','.join(f'127.0.0.1:{port}' for port in ports)}", f"--listen=127.0.0.1:{front}"]
        timing = ["--health-interval=500ms", "--health-timeout=500ms", f"--certificate-authority={made.pki / 'ca.crt'}"]
        made.wait(made.start("balancer", *flags, *timing), lambda: made.get("/readyz").status == 200)
        assert made.kubectl("create", "configmap", "a").code == 0

        def answers_within(seconds: float) -> None:
            deadline = time.monotonic() + seconds
            while True:
                with contextlib.suppress(OSError):
                    if made.get("/api/v1/namespaces/default/configmaps/a", token=made.token).status == 200:
                        return
                assert time.monotonic() < deadline

        daemons[0].process.kill()
        answers_within(2)
        made.port = ports[0]
        daemons[0] = made.start_apiserver()
        made.port = front
        daemons[1].process.send_signal(signal.SIGSTOP)
        answers_within(2)
        assert made.kubectl("delete", "configmap", "a").code == 0
        daemons[1].process.send_signal(signal.SIGCONT)

"""exec, attach, port-forward and logs against a real containerd, through the kubelet's own server."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from component import serving
from component.clock import RealClock
from component.metrics import Registry
from component.streams import channels, upgrade
from component.streams.channels import Options
from component.streams.session import Session
from cri import streaming
from cri.api import runtime_v1_pb2 as pb
from cri.channel import Channel
from cri.runtime import GrpcRuntime
from node.kubelet.interface import ContainerLog, Pod
from node.kubelet.server.auth import Gate
from node.kubelet.server.metrics import Pages
from node.kubelet.server.routes import Server
from node.kubelet.stats.containers import CriStats
from tests.support.containerd import BUSYBOX, running_containerd
from tests.support.kubelet import Reviews
from tests.support.netns import own_network_namespace

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]
GOOD = ("Authorization", "Bearer good")


@dataclass
class Node:
    """One sandbox with one container that answers a line on TCP port 7000, behind a facade."""

    streaming: GrpcRuntime
    sandbox: str
    container: str
    log: Path
    url: str = ""
    node_name: str = "node-1"

    def pods(self) -> Sequence[Pod]:
        return []

    def pod(self, namespace: str, name: str, uid: str | None = None) -> Pod:
        raise NotImplementedError

    async def container_id(self, namespace: str, pod: str, container: str, *, uid: str | None = None) -> str:
        return self.container

    async def sandbox_id(self, namespace: str, pod: str, *, uid: str | None = None) -> str:
        return self.sandbox

    async def container_log(self, namespace: str, pod: str, container: str, *, previous: bool = False) -> ContainerLog:
        return ContainerLog(self.log, self.container, running=True)

    async def container_running(self, container_id: str) -> bool:
        return (await self.streaming.container_status(container_id)).state == pb.CONTAINER_RUNNING

    def healthy(self) -> Sequence[str]:
        return ()


async def _ready(runtime: GrpcRuntime) -> None:
    async with asyncio.timeout(15):
        while not all(condition.status for condition in (await runtime.status()).status.conditions):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


SCRIPT = """
echo started; echo oops >&2
nc -ll -p 7000 -e sh -c 'read x; echo got $x' &
while read x; do echo "read $x"; done
sleep 1000
"""


async def _start(runtime: GrpcRuntime, logs: Path) -> Node:
    metadata = pb.PodSandboxMetadata(name="p", namespace="ns", uid="u1")
    linux = pb.LinuxPodSandboxConfig(cgroup_parent="/pyb-streams")
    config = pb.PodSandboxConfig(metadata=metadata, log_directory=str(logs), linux=linux)
    sandbox = await runtime.run_pod_sandbox(config)
    container_config = pb.ContainerConfig(
        metadata=pb.ContainerMetadata(name="c"),
        image=pb.ImageSpec(image=BUSYBOX),
        command=["sh", "-c", SCRIPT],
        log_path="0.log",
        stdin=True,
        labels={"io.kubernetes.pod.name": "p", "io.kubernetes.container.name": "c"},
    )
    container = await runtime.create_container(sandbox, container_config, config)
    await runtime.start_container(container)
    return Node(runtime, sandbox, container, logs / "0.log")


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    with own_network_namespace():
        async with running_containerd() as running:
            running.write_bridge_network()
            channel = Channel(running.endpoint)
            runtime = GrpcRuntime(channel)
            await _ready(runtime)
            found = await _start(runtime, running.data_dir / "podlogs")
            gate = Gate(Reviews({"good": "admin"}, {"admin"}), "node-1", RealClock())
            registry = Registry(process=False)
            server = Server(found, gate, registry, pages=Pages(registry, CriStats(runtime, "node-1"), RealClock()))
            async with serving.listening(server.application(), "127.0.0.1", 0, drain_seconds=1) as address:
                found.url = address.url
                yield found
            await runtime.stop_pod_sandbox(found.sandbox)
            await runtime.remove_pod_sandbox(found.sandbox)
            await channel.close()


async def _exec(node: Node, command: list[str], options: Options, stdin: bytes = b"") -> streaming.CommandResult:
    url = await node.streaming.exec(
        node.container, command, stdin=options.stdin, stdout=options.stdout, stderr=options.stderr, tty=options.tty
    )
    return await streaming.run(url, options, stdin, 1 << 30)


async def test_streams_with_a_real_runtime(node: Node) -> None:
    """One test, because a containerd takes seconds to start."""
    await _runs_commands(node)
    await _streams_to_websocket_clients(node)
    await _streams_to_spdy_clients(node)
    await _forwards_ports(node)
    await _attaches(node)
    await _reads_logs(node)
    await _tells_usage(node)


async def _runs_commands(node: Node) -> None:
    both = Options(stdin=True, stdout=True)
    assert (await _exec(node, ["cat"], both, b"hi\n")).stdout == b"hi\n"
    big = bytes(range(256)) * 40_000
    assert (await _exec(node, ["cat"], both, big)).stdout == big
    failed = await _exec(node, ["sh", "-c", "echo out; echo err >&2; exit 3"], Options(stdout=True, stderr=True))
    assert (failed.stdout, failed.stderr, failed.exit_code) == (b"out\n", b"err\n", 3)
    missing = await _exec(node, ["/nothing"], Options(stdout=True))
    assert missing.exit_code is None or missing.exit_code == 127
    assert "nothing" in str(missing.status)


async def _streams_to_websocket_clients(node: Node) -> None:
    query = "command=sh&command=-c&command=cat;exit+4&input=1&output=1"
    async with (
        aiohttp.ClientSession(node.url, headers=dict([GOOD])) as http,
        http.ws_connect(f"/exec/ns/p/c?{query}", protocols=(channels.V5,)) as socket,
    ):
        await socket.send_bytes(b"\0hi\n")
        await socket.send_bytes(b"\xff\0")
        messages = [message.data async for message in socket]
        assert messages[0] == b"\x01hi\n"
        assert b'"reason":"ExitCode","message":"4"' in messages[1]
    async with (
        aiohttp.ClientSession(node.url, headers=dict([GOOD])) as http,
        http.ws_connect("/exec/ns/p/c?command=sh&input=1&output=1&tty=1", protocols=(channels.V5,)) as socket,
    ):
        await socket.send_bytes(b'\x04{"Width":97,"Height":31}')
        await asyncio.sleep(0.2)
        await socket.send_bytes(b"\0stty size; exit\n")
        output = b"".join([message.data[1:] async for message in socket if message.data[0] == 1])
        assert b"31 97" in output


async def _spdy(node: Node, path: str) -> Session:
    answer = await upgrade.connect("POST", node.url + path, [*upgrade.spdy_headers([channels.V4]), GOOD])
    assert isinstance(answer, upgrade.Upgraded), answer
    session = Session(client=True)
    answer.duplex.switch(session)
    return session


async def _streams_to_spdy_clients(node: Node) -> None:
    session = await _spdy(node, "/exec/ns/p/c?command=cat&input=1&output=1")
    streams = await channels.open_streams(session, Options(stdin=True, stdout=True))
    await streams[channels.Role.STDIN].write(b"hi\n")
    streams[channels.Role.STDIN].close_write()
    assert await streams[channels.Role.STDOUT].read_all() == b"hi\n"
    assert b"Success" in await streams[channels.Role.ERROR].read_all()
    session.close()


async def _forwards_ports(node: Node) -> None:
    answer = await upgrade.connect("POST", f"{node.url}/portForward/ns/p", [*upgrade.spdy_headers([channels.PORT_FORWARD]), GOOD])
    assert isinstance(answer, upgrade.Upgraded)
    session = Session(client=True)
    answer.duplex.switch(session)
    for number in range(2):
        headers = {"port": "7000", "requestID": str(number)}
        await session.open({"streamType": "error", **headers}, fin=True)
        data = await session.open({"streamType": "data", **headers})
        await data.write(f"{number}\n".encode())
        assert await data.read_all() == f"got {number}\n".encode()
    session.close()
    async with (
        aiohttp.ClientSession(node.url, headers=dict([GOOD])) as http,
        http.ws_connect("/portForward/ns/p?port=7000", protocols=(channels.V4,)) as socket,
    ):
        await socket.receive_bytes()
        await socket.receive_bytes()
        await socket.send_bytes(b"\0ws\n")
        assert await socket.receive_bytes() == b"\0got ws\n"


async def _attaches(node: Node) -> None:
    session = await _spdy(node, "/attach/ns/p/c?input=1&output=1")
    streams = await channels.open_streams(session, Options(stdin=True, stdout=True))
    await streams[channels.Role.STDIN].write(b"me\n")
    assert await streams[channels.Role.STDOUT].read() == b"read me\n"
    session.close()


async def _reads_logs(node: Node) -> None:
    async with aiohttp.ClientSession(node.url, headers=dict([GOOD])) as http:
        async with http.get("/containerLogs/ns/p/c") as response:
            assert sorted((await response.text()).splitlines()) == ["oops", "read me", "started"]
        async with http.get("/containerLogs/ns/p/c?follow=true&tailLines=1") as response:
            assert await response.content.readline() == b"read me\n"
            await node.streaming.stop_container(node.container, 0)
            async with asyncio.timeout(5):
                assert await response.content.read() == b""


async def _tells_usage(node: Node) -> None:
    async with aiohttp.ClientSession(node.url, headers=dict([GOOD])) as http, http.get("/stats/summary") as response:
        assert (await response.json())["node"]["nodeName"] == "node-1"

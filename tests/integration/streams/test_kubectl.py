"""What stock kubectl, of two minors, makes of our streams: by WebSocket as it does today, by SPDY/3.1 as older clients do."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.integration.streams.conftest import Cluster
from tests.support import clients

BOTH = pytest.mark.parametrize("websockets", [pytest.param("true", id="websocket"), pytest.param("false", id="spdy")])


@pytest.fixture(params=clients.KUBECTLS)
def cluster(cluster: Cluster, request: pytest.FixtureRequest) -> Cluster:
    cluster.api.kubectl_program = clients.kubectl(request.param)
    return cluster


async def start(cluster: Cluster, websockets: str, *arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        cluster.api.kubectl_program,
        f"--kubeconfig={cluster.api.kubeconfig}",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(cluster.api.directory),
            "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": websockets,
            "KUBECTL_PORT_FORWARD_WEBSOCKETS": websockets,
        },
    )


async def run(cluster: Cluster, websockets: str, *arguments: str, stdin: str = "") -> tuple[int | None, str, str]:
    process = await start(cluster, websockets, *arguments)
    out, err = await process.communicate(stdin.encode())
    return process.returncode, out.decode(), err.decode()


@BOTH
async def test_exec_feeds_stdin_and_returns(cluster: Cluster, websockets: str) -> None:
    assert await run(cluster, websockets, "exec", "-i", "p", "--", "cat", stdin="hi\n") == (0, "hi\n", "")


@BOTH
async def test_exec_reports_exit_codes(cluster: Cluster, websockets: str) -> None:
    code, out, err = await run(cluster, websockets, "exec", "p", "--", "fail")
    assert (code, out) == (3, "")
    assert err == "oh no\ncommand terminated with exit code 3\n"


@BOTH
async def test_exec_of_what_the_runtime_refuses(cluster: Cluster, websockets: str) -> None:
    code, _, err = await run(cluster, websockets, "exec", "p", "--", "refuse")
    assert code == 1
    assert 'container not found ("c")' in err


@BOTH
async def test_big_data_goes_and_comes_whole(cluster: Cluster, websockets: str) -> None:
    code, out, err = await run(cluster, websockets, "exec", "p", "--", "flood")
    assert (code, len(out), err) == (0, 10_000_000, "")
    text = "0123456789" * 300_000
    assert await run(cluster, websockets, "exec", "-i", "p", "--", "cat", stdin=text) == (0, text, "")


@BOTH
async def test_attach(cluster: Cluster, websockets: str) -> None:
    code, out, _ = await run(cluster, websockets, "attach", "-i", "p", stdin="hello\n")
    assert code == 0
    assert "hello\n" in out


async def test_logs(cluster: Cluster, tmp_path: Path) -> None:
    code, _, err = await cluster.api.kubectl("logs", "p")
    assert code == 1
    assert err == 'Error from server (BadRequest): container "c" in pod "p" is waiting to start: ContainerCreating\n'
    cluster.kubelet.facade.log = tmp_path / "0.log"
    cluster.kubelet.facade.log.write_text("2026-11-30T11:29:38Z stdout F a\n2026-11-30T11:29:38Z stdout F b\n")
    assert await cluster.api.kubectl("logs", "p") == (0, "a\nb\n", "")
    assert await cluster.api.kubectl("logs", "-f", "p", "--tail=1", "--timestamps") == (
        0,
        "2026-11-30T11:29:38.000000000Z b\n",
        "",
    )


@BOTH
async def test_port_forward(cluster: Cluster, websockets: str) -> None:
    path, running = "/api/v1/namespaces/default/pods/p/status", {"status": {"phase": "Running"}}
    assert (await cluster.api.request("PATCH", path, running, content_type="application/merge-patch+json")).status == 200
    process = await start(cluster, websockets, "port-forward", "p", ":80")
    assert process.stdout is not None
    try:
        async with asyncio.timeout(10):
            line = (await process.stdout.readline()).decode()
            port = int(line.split("127.0.0.1:")[1].split(" ")[0])
            for text in (b"one", b"two"):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(text)
                assert await reader.readexactly(6) == b"80:" + text
                writer.close()
                await writer.wait_closed()
    finally:
        process.terminate()
        await process.communicate()

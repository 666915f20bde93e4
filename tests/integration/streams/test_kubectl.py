"""What stock kubectl makes of our streams."""

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.integration.streams.conftest import Cluster

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


async def test_exec_feeds_stdin_and_returns(cluster: Cluster) -> None:
    assert await cluster.api.kubectl("exec", "-i", "p", "--", "cat", stdin="hi\n") == (0, "hi\n", "")


async def test_exec_reports_exit_codes(cluster: Cluster) -> None:
    code, out, err = await cluster.api.kubectl("exec", "p", "--", "fail")
    assert (code, out) == (3, "")
    assert err == "oh no\ncommand terminated with exit code 3\n"


async def test_exec_of_what_the_runtime_refuses(cluster: Cluster) -> None:
    code, _, err = await cluster.api.kubectl("exec", "p", "--", "refuse")
    assert code == 1
    assert 'container not found ("c")' in err


async def test_big_output_arrives_whole(cluster: Cluster) -> None:
    code, out, err = await cluster.api.kubectl("exec", "p", "--", "flood")
    assert (code, len(out), err) == (0, 10_000_000, "")


async def test_attach(cluster: Cluster) -> None:
    code, out, _ = await cluster.api.kubectl("attach", "-i", "p", stdin="hello\n")
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


async def test_port_forward(cluster: Cluster) -> None:
    path, running = "/api/v1/namespaces/default/pods/p/status", {"status": {"phase": "Running"}}
    assert (await cluster.api.request("PATCH", path, running, content_type="application/merge-patch+json")).status == 200
    process = await asyncio.create_subprocess_exec(
        "kubectl",
        f"--kubeconfig={cluster.api.kubeconfig}",
        "port-forward",
        "p",
        ":80",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(cluster.api.directory)},
    )
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

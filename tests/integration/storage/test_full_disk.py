"""An API server whose disk is really full: a tmpfs of a few megabytes, in a mount namespace that nobody else sees."""

import http.client
import json
import os
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemons import Bench, Daemon, bench

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Bench]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = f'mount -t tmpfs -o size=16m tmpfs {disk} && exec "$@"'
    with bench(tmp_path / "cluster", wrap=("unshare", "--mount", "sh", "-c", mount, "sh")) as cluster:
        cluster.storage = [f"--storage-path={disk / 'state.db'}"]
        yield cluster


def on_its_disk(server: Daemon, script: str) -> None:
    """Run a shell script where the server's disk is seen."""
    argv = ["nsenter", f"--mount=/proc/{server.process.pid}/ns/mnt", "--", "sh", "-c", script]
    subprocess.run(argv, check=False, capture_output=True, timeout=30)


def create(made: Bench, name: str, size: int) -> tuple[int, str, str | None]:
    """Status, message and Retry-After of a creation."""
    connection = http.client.HTTPSConnection("127.0.0.1", made.port, context=ssl._create_unverified_context(), timeout=20)
    try:
        body = json.dumps({"metadata": {"name": name}, "data": {"k": "x" * size}})
        headers = {"Authorization": f"Bearer {made.token}", "Content-Type": "application/json"}
        connection.request("POST", CONFIG_MAPS, body, headers)
        answer = connection.getresponse()
        found = json.loads(answer.read())
        return answer.status, found.get("message", ""), answer.headers.get("Retry-After")
    finally:
        connection.close()


def test_writes_are_refused_with_the_reason_reads_go_on_and_space_mends_it(made: Bench, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    server = made.start_apiserver()
    assert create(made, "before", 10)[0] == 201
    on_its_disk(server, f"dd if=/dev/zero of={disk}/ballast bs=64k; true")
    refused = [create(made, f"big-{number}", 200_000) for number in range(12)]
    status, message, retry_after = refused[-1]
    assert (status, retry_after) == (503, "1")
    assert message == f"{disk}/state.db: the disk is full; free some space, nothing needs a restart"
    assert {code for code, _, _ in refused} <= {201, 503}
    held = made.get(f"{CONFIG_MAPS}/before", token=made.token)
    assert held.status == 200, "reads go on"
    assert made.get("/readyz").status == 200
    on_its_disk(server, f"rm {disk}/ballast")
    assert create(made, "after", 200_000)[0] == 201, "without a restart"
    names = {item["metadata"]["name"] for item in json.loads(made.get(CONFIG_MAPS, token=made.token).body)["items"]}
    accepted = {f"big-{number}" for number, (code, _, _) in enumerate(refused) if code == 201}
    assert names >= {"before", "after", *accepted}
    assert not names & {f"big-{number}" for number in range(12)} - accepted
    assert server.stop() == 0


def test_a_server_on_a_full_disk_does_not_start_half(made: Bench, tmp_path: Path) -> None:
    """It says what is wrong instead of serving an empty cluster."""
    disk = tmp_path / "disk"
    fill = f'mount -t tmpfs -o size=1m tmpfs {disk} && dd if=/dev/zero of={disk}/ballast bs=4k 2>/dev/null; exec "$@"'
    made.wrap = ("unshare", "--mount", "sh", "-c", fill, "sh")
    server = made.start("apiserver", *made.apiserver_flags())
    assert server.ended(20) == 1
    assert "the disk is full" in server.log or "No space left on device" in server.log

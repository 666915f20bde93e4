"""`up` and its kin under bad conditions: wrong flags, taken ports, somebody else's runtime, killed in the middle, run twice."""

import gzip
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.cluster import processes
from tests.support.cluster import Cluster, eventually, network, require_node
from tests.support.containerd import running_containerd

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]
UP = [sys.executable, "-m", "cli", "up"]


@pytest.fixture(scope="module")
def machine() -> Iterator[Cluster]:
    """A network and a folder, and no cluster yet. Tests leave it without one, or stop what they find."""
    require_node()
    folder = Path(tempfile.mkdtemp(prefix="pyb-", dir="/var/tmp"))
    with network() as name:
        cluster = Cluster(folder / "c", name)
        try:
            yield cluster
        finally:
            cluster.pybernetes("down", "--purge", check=False)
            shutil.rmtree(folder, ignore_errors=True)


def said(cluster: Cluster, verb: str, *flags: str, data_dir: Path | None = None) -> tuple[int, str]:
    where = str(data_dir or cluster.data_dir)
    done = cluster.run(sys.executable, "-m", "cli", verb, "--data-dir", where, *flags, check=False)
    return done.returncode, done.stdout + done.stderr


def running(cluster: Cluster) -> list[str]:
    """Names of all processes that carry the cluster's mark, doubled ones twice."""
    return sorted(process.name for process in processes.marked(cluster.data_dir))


ALL = ["apiserver", "containerd", "control", "node"]


def test_what_cannot_work_is_refused_before_anything_starts(machine: Cluster) -> None:
    file = machine.data_dir.parent / "file"
    file.write_text("")
    long = machine.data_dir.parent / ("l" * 80) / ("m" * 80)
    taken = machine.start(
        sys.executable,
        "-c",
        "import socket; s = socket.socket(); s.bind(('', 10250)); s.listen(); input()",
        stdin=subprocess.PIPE,
    )
    eventually(lambda: ":10250" in machine.run("ss", "-ltn").stdout)
    cases = [
        (said(machine, "down"), 1, "there is no cluster in"),
        (said(machine, "status"), 1, "no cluster was ever started"),
        (said(machine, "up", "--detach", data_dir=file), 2, "is a file"),
        (said(machine, "up", "--detach", data_dir=Path("/proc/nowhere")), 1, "choose another --data-dir"),
        (said(machine, "up", "--detach", "--secure-port=70000"), 2, "'--secure-port': 70000 is not in the range"),
        (said(machine, "up", "--detach", "--node-name=A_b"), 1, "--node-name 'A_b': a lowercase RFC 1123"),
        (said(machine, "up", "--detach", "--containerd=unix:///none.sock"), 1, "no container runtime listens there"),
        (said(machine, "up", "--detach", "--kubelet-port=10250"), 1, "port 10250 is taken"),
        (said(machine, "up", "--detach", "--kubelet-port=10260", data_dir=long), 1, "use a shorter data directory"),
    ]
    taken.communicate("\n")
    for (status, text), wanted, sentence in cases:
        assert sentence in text
        assert status == wanted
        assert "Traceback" not in text
    assert not (machine.data_dir / "cluster.json").exists(), "a refused flag must not be remembered"
    assert running(machine) == []


def test_killed_in_the_middle_and_run_twice_at_once_it_doubles_nothing(machine: Cluster) -> None:
    for seconds in (1.2, 1.8, 2.4):
        started = machine.start(*UP, "--detach", "--data-dir", str(machine.data_dir), "--node-name=n1", stdout=subprocess.DEVNULL)
        time.sleep(seconds)
        started.kill()
        started.wait()
    pair = [
        machine.start(*UP, "--detach", "--data-dir", str(machine.data_dir), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for _ in range(2)
    ]
    ends = sorted((process.communicate()[0], process.returncode) for process in pair)

    assert [code for _, code in ends] == [0, 1], ends
    assert "another `pybernetes up` or `down` is at work" in ends[1][0] + ends[0][0]
    assert running(machine) == ALL
    assert said(machine, "status")[0] == 0


def docker_archive() -> bytes:
    """What `docker save` writes, with the busybox of this machine."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as files:
        files.add("/bin/busybox", "bin/busybox")
    diff = f"sha256:{hashlib.sha256(layer.getvalue()).hexdigest()}"
    config = {"architecture": "amd64", "os": "linux", "config": {"Cmd": ["/bin/busybox", "sleep", "600"]}}
    config["rootfs"] = {"type": "layers", "diff_ids": [diff]}
    manifest = [{"Config": "config.json", "RepoTags": ["sleepy:1"], "Layers": ["layer.tar"]}]
    parts = {
        "config.json": json.dumps(config).encode(),
        "layer.tar": layer.getvalue(),
        "manifest.json": json.dumps(manifest).encode(),
    }
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, data in parts.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return made.getvalue()


def test_images_come_from_docker_archives_and_not_from_garbage(machine: Cluster) -> None:
    machine.pybernetes("up", "--detach", "--node-name=n1")
    folder = machine.data_dir.parent
    (folder / "garbage.tar").write_bytes(b"x" * 1000)
    (folder / "broken.tar.gz").write_bytes(gzip.compress(docker_archive())[:1000])
    (folder / "app.tar.gz").write_bytes(gzip.compress(docker_archive(), 1))
    run = [sys.executable, "-m", "cli", "image", "import", "--data-dir", str(machine.data_dir)]
    for name in ("garbage.tar", "broken.tar.gz"):
        refused = machine.run(*run, str(folder / name), check=False)
        assert (refused.returncode, "Error: cannot" in refused.stderr, name in refused.stderr) == (1, True, True)
    assert "docker.io/library/sleepy:1" in machine.run(*run, str(folder / "app.tar.gz")).stdout
    machine.kubectl("run", "sleepy", "--image=sleepy:1", "--image-pull-policy=Never")
    machine.kubectl("wait", "--for=condition=Ready", "pod/sleepy", "--timeout=20s")
    machine.kubectl("delete", "pod", "sleepy", "--now")


def foreground(machine: Cluster) -> "subprocess.Popen[str]":
    log = (machine.data_dir.parent / "foreground.log").open("w")
    with log:
        process = machine.start(*UP, "--data-dir", str(machine.data_dir), stdout=log, stderr=subprocess.STDOUT)
    eventually(lambda: "press Ctrl-C" in Path(log.name).read_text(), 60)
    return process


def test_in_the_foreground_it_starts_again_what_dies_until_a_signal(machine: Cluster) -> None:
    process = foreground(machine)
    killed = machine.processes()["control"]
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: machine.processes().get("control", killed) != killed)
    assert running(machine) == ALL

    process.send_signal(signal.SIGINT)

    assert process.wait(30) == 0
    assert running(machine) == []


def test_down_ends_the_foreground_form_and_purge_crosses_no_mount(machine: Cluster) -> None:
    process = foreground(machine)
    precious = machine.data_dir.parent / "precious"
    precious.mkdir()
    (precious / "kept").write_text("")
    (machine.data_dir / "mounted").mkdir()
    subprocess.run(["mount", "--bind", str(precious), str(machine.data_dir / "mounted")], check=True)
    (machine.data_dir / "link").symlink_to(precious)

    machine.pybernetes("down", "--purge")

    assert process.wait(30) == 0
    assert not machine.data_dir.exists()
    assert (precious / "kept").exists()
    assert running(machine) == []


async def test_a_runtime_of_somebody_else_is_used_and_left_alone(machine: Cluster) -> None:
    foreign = f"foreign-{uuid.uuid4().hex[:8]}"  # runc keeps such names for the whole machine
    async with running_containerd(machine.inside()) as runtime:
        ctr = ["ctr", "--address", str(runtime.where.socket), "--namespace", "k8s.io"]
        if (machine.data_dir / "run").exists():
            machine.pybernetes("down", "--purge")
        machine.pybernetes("up", "--detach", "--node-name=n1", f"--containerd={runtime.endpoint}")
        status, text = said(machine, "up", "--detach", "--containerd=")
        assert (status, "the cluster has its pods in unix:///" in text) == (1, True)
        assert running(machine) == ["apiserver", "control", "node"]
        machine.kubectl("create", "deployment", "web", "--image=docker.io/library/busybox:1.35", "--", "sleep", "600")
        machine.kubectl("rollout", "status", "deployment/web", "--timeout=30s")
        machine.run(*ctr, "run", "--detach", "docker.io/library/busybox:1.35", foreign, "/bin/sleep", "600")
        try:
            machine.pybernetes("down", "--purge", "--grace=1")

            assert Path(f"/proc/{runtime.pid}").exists()
            assert machine.run(*ctr, "tasks", "ls", "--quiet").stdout.split() == [foreign]
            assert machine.run(*ctr, "containers", "ls", "--quiet").stdout.split() == [foreign]
            assert list(runtime.where.cni_conf_dir.iterdir()) == []
            assert "cni0" not in machine.run("ip", "-brief", "link").stdout
        finally:
            machine.run(*ctr, "tasks", "rm", "--force", foreign, check=False)

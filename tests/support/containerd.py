"""A real, private containerd for contract and end-to-end tests: own root, state, socket and CNI folder, cleaned up whole.

Start it inside ``tests.support.netns.own_network_namespace`` when pods get networks.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from bootstrap import containerd, images
from tests.support import runtimes

BUSYBOX = "docker.io/library/busybox:1.35"


@dataclass(frozen=True, slots=True)
class RunningContainerd:
    """What a test needs to know of it."""

    where: containerd.Layout
    data_dir: Path
    pid: int
    environment: Mapping[str, str]

    @property
    def endpoint(self) -> str:
        return self.where.endpoint

    def import_image(self, reference: str) -> None:
        """One more image, unlike any other. Blocks."""
        archive = self.data_dir / "more.tar"
        own = images.File("made-for", reference.encode())
        images.write_archive([images.busybox_image(reference, ["sh"], extra=[own])], archive)
        command = ["ctr", "--address", str(self.where.socket), "--namespace", "k8s.io", "images", "import", str(archive)]
        subprocess.run(command, check=True, capture_output=True, env=self.environment)

    def write_bridge_network(self, subnet: str = "10.244.0.0/24", bridge: str = "cni0") -> None:
        """A CNI configuration for tests that run without a kubelet."""
        plugins = [
            {
                "type": "bridge",
                "bridge": bridge,
                "isGateway": True,
                "ipam": {"type": "host-local", "ranges": [[{"subnet": subnet}]]},
            }
        ]
        plugins[0]["ipam"]["dataDir"] = str(self.data_dir / "cni-ipam")  # type: ignore[index]
        config = {"cniVersion": "0.4.0", "name": "test", "plugins": plugins}
        (self.where.cni_conf_dir / "10-test.conflist").write_text(json.dumps(config))


def require_containerd() -> None:
    """Skip, saying why, where the real thing cannot run."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    for program in ("containerd", "runc", "ctr"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (apt-get install containerd runc)")


@asynccontextmanager
async def running_containerd(
    wrap: Sequence[str] = (), *, systemd_cgroup: bool = False, runtime: str = "", registries: bool = False
) -> AsyncIterator[RunningContainerd]:
    """Start one with the pause and busybox images imported; kill it, its shims and mounts at the end.

    ``wrap`` comes before its command line, as ``nsenter --net=... --``. ``systemd_cgroup``: systemd makes its cgroups.
    ``runtime``: another than the machine's own, of ``tests.support.runtimes``. ``registries``: how to reach each registry is said
    below ``<data_dir>/certs.d`` (a ``hosts.toml``).
    """
    require_containerd()
    runtimes.require(runtime)
    environment = runtimes.environment(runtime)
    data_dir = Path(tempfile.mkdtemp(prefix="pyb-cd-", dir="/tmp"))
    process: asyncio.subprocess.Process | None = None
    try:
        where = containerd.layout(data_dir, **({"registry_config": data_dir / "certs.d"} if registries else {}))
        version = await _output("containerd", "--version", environment=environment)
        containerd.write_config(where, containerd.minor_version(version), systemd_cgroup=systemd_cgroup)
        with (data_dir / "containerd.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *wrap, *containerd.command(where), stdout=log, stderr=log, env=environment
            )
        await _import_images(where, data_dir, environment)
        yield RunningContainerd(where, data_dir, process.pid, environment)
    finally:
        if process is not None and process.returncode is None:
            process.kill()
            await process.wait()
        await asyncio.to_thread(clean_up, data_dir)


async def _import_images(where: containerd.Layout, data_dir: Path, environment: Mapping[str, str]) -> None:
    applets = (await _output(str(images.BUSYBOX), "--list")).split()
    archive = data_dir / "images.tar"
    images.write_archive([images.pause_image(where.sandbox_image), images.busybox_image(BUSYBOX, applets)], archive)
    command = ["ctr", "--address", str(where.socket), "--namespace", "k8s.io", "images", "import", str(archive)]
    for _ in range(100):
        process = await asyncio.create_subprocess_exec(
            *command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
        )
        output, _ = await process.communicate()
        if process.returncode == 0:
            return
        await asyncio.sleep(0.1)
    raise RuntimeError(f"containerd did not come up: {output.decode()}\n{(data_dir / 'containerd.log').read_text()}")


async def _output(*command: str, environment: Mapping[str, str] | None = None) -> str:
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, env=environment)
    output, _ = await process.communicate()
    return output.decode()


def clean_up(data_dir: Path) -> None:
    """End the processes that name the folder, with what runs below them; unmount and remove what is in it. Blocks."""
    for pid in _processes_of(data_dir):
        _kill(pid)
    for mount in sorted(_mounts_below(data_dir), reverse=True):
        subprocess.run(["umount", "--lazy", mount], check=False, capture_output=True)
    shutil.rmtree(data_dir, ignore_errors=True)


def _processes_of(data_dir: Path) -> Iterator[int]:
    """Shims name our socket on their command line; what they run are their children."""
    marker = os.fsencode(data_dir)
    parents: dict[int, int] = {}
    ours: set[int] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if marker in (entry / "cmdline").read_bytes() and int(entry.name) != os.getpid():
                ours.add(int(entry.name))
        except (OSError, ValueError):
            continue
    for pid in list(parents):
        chain, at = {pid}, parents.get(pid, 0)
        while at and at not in ours and at in parents:
            chain.add(at)
            at = parents[at]
        if at in ours:
            ours |= chain
    yield from ours - {os.getpid()}


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _mounts_below(folder: Path) -> list[str]:
    points = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    return [point for point in points if point.startswith(f"{folder}/")]

"""Pods from the outside: create-to-Ready and delete-to-gone, beside upstream's kubelet. Run as root by ``make bench-pods``.

    python -m bench.pods [--peer] [--rounds 2] [--pods 30]

Our cluster and upstream's (``--peer``; its programs must have been built) each have a network namespace and a containerd of
their own with the same images, and the same tool, ``pod-bench``, drives both in turn. Nothing else should run.
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bootstrap import containerd
from bootstrap.images import busybox_image, pause_image, write_archive
from node.kubelet.cgroups.manager import MOUNT, remove_tree
from node.network.cni_config import conflist
from tests.support.cluster import Cluster, environment, eventually, network, running_cluster
from tests.support.containerd import clean_up

ROOT = Path(__file__).parents[1]
BUSYBOX = "docker.io/library/busybox:latest"
PEER_PARTS = ("kubelet", "proxy", "sched", "kcm", "apiserver", "etcd")

# What each figure may be beside the peer's.
BARS = {"one pod": 0.7, "pods at once": 0.6, "delete": 0.2}

Rows = Sequence[Mapping[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", default=str(ROOT / ".." / "shared" / "bench"), help="folder of pod-bench and peer-up")
    parser.add_argument("--peer", action="store_true", help="measure upstream's cluster in the same run")
    parser.add_argument("--pods", type=int, default=30, help="pods made at once")
    parser.add_argument("--rounds", type=int, default=2, help="how often each is measured, in turn")
    arguments = parser.parse_args()
    tools = Path(arguments.tools).resolve()
    if not (tools / "pod-bench").exists():
        sys.exit(f"the measuring tools are not in {tools}; name their folder with --tools")
    found: dict[str, list[Rows]] = {"pybernetes": [], "peer": []}
    with tempfile.TemporaryDirectory(prefix="pyb-pods-", dir="/var/tmp") as folder, running_cluster() as ours:
        archive = Path(folder, "images.tar")
        write_images(archive)
        ours.pybernetes("image import", str(archive))
        run = {"pybernetes": runner(ours.inside, tools, "pybernetes", ours.kubeconfig, arguments.pods)}
        with peer(tools, Path(folder), archive, arguments.peer) as theirs:
            if theirs is not None:
                run["peer"] = runner(theirs.inside, tools, "peer", theirs.kubeconfig, arguments.pods)
            for _ in range(arguments.rounds):
                for name, measure in run.items():
                    found[name].append(measure())
    report(found["pybernetes"], found["peer"])


def write_images(archive: Path) -> None:
    applets = subprocess.run(["/bin/busybox", "--list"], capture_output=True, text=True, check=True).stdout.split()
    write_archive([pause_image(), busybox_image(BUSYBOX, applets)], archive)


def runner(inside: Callable[..., list[str]], tools: Path, name: str, kubeconfig: Path, pods: int) -> Callable[[], Rows]:
    def measure() -> Rows:
        busy, began = processor_seconds(), time.monotonic()
        argv = inside(str(tools / "pod-bench"), name, str(kubeconfig), str(pods))
        done = subprocess.run(argv, capture_output=True, text=True, timeout=400, env=environment(), check=True)
        print(done.stdout.rstrip(), flush=True)
        print(f"  processor time of the whole machine: {processor_seconds() - busy:.1f} s in {time.monotonic() - began:.0f} s")
        settle(inside, kubeconfig)
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    return measure


def settle(inside: Callable[..., list[str]], kubeconfig: Path) -> None:
    """Until the last round's pods are gone, so that they do not count in the next one."""
    argv = inside("kubectl", f"--kubeconfig={kubeconfig}", "get", "pods", "--all-namespaces", "-o", "name")
    eventually(lambda: subprocess.run(argv, capture_output=True, text=True, check=True).stdout == "", 90, "pods are left")


def processor_seconds() -> float:
    """User and system time of this machine since it started."""
    user, nice, system = Path("/proc/stat").read_text().split()[1:4]
    return (int(user) + int(nice) + int(system)) / os.sysconf("SC_CLK_TCK")


@contextmanager
def peer(tools: Path, folder: Path, archive: Path, wanted: bool) -> Iterator[Cluster | None]:
    """Upstream's whole cluster, in a namespace of its own on a containerd of its own."""
    if not wanted:
        yield None
        return
    with network() as name:
        cluster = Cluster(folder / "peer", name)
        try:
            socket = start_containerd(cluster, folder / "cd", archive)
            with (folder / "peer.log").open("wb") as log:
                for argv in (
                    [str(tools / "peer-up"), str(cluster.data_dir)],
                    [str(tools / "peer-node"), str(cluster.data_dir), socket],
                ):
                    subprocess.run(cluster.inside(*argv), stdout=log, stderr=log, check=True, env=environment())
            yield Upstream(cluster.data_dir, name)
        finally:
            for part in PEER_PARTS:
                stop(cluster.data_dir / f"{part}.pid")
            clean_up(folder)  # with what is mounted there
            for controller in [MOUNT, *(entry for entry in MOUNT.iterdir() if entry.is_dir())]:
                remove_tree(controller / "kubepods")


class Upstream(Cluster):
    """Where ``peer-up`` puts the administrator's credentials."""

    @property
    def kubeconfig(self) -> Path:
        return self.data_dir / "kubeconfig"


def start_containerd(cluster: Cluster, folder: Path, archive: Path) -> str:
    """Its socket, when the images are in it. The network is the one that our kubelet would write."""
    where = containerd.layout(folder)
    version = subprocess.run(["containerd", "--version"], capture_output=True, text=True, check=True).stdout
    containerd.write_config(where, containerd.minor_version(version))
    config = conflist(["10.244.0.0/24"], "cni0", folder / "cni-ipam")
    (where.cni_conf_dir / "10-peer.conflist").write_text(json.dumps(config))
    with (folder / "containerd.log").open("wb") as log:
        subprocess.Popen(cluster.inside(*containerd.command(where)), stdout=log, stderr=log)
    argv = ["ctr", "--address", str(where.socket), "--namespace", "k8s.io", "images", "import", str(archive)]
    eventually(lambda: subprocess.run(argv, capture_output=True, check=False).returncode == 0, 20, "containerd takes no images")
    return str(where.socket)


def stop(record: Path) -> None:
    try:
        os.kill(int(record.read_text()), signal.SIGKILL)
    except (OSError, ValueError):
        return


def report(ours: Sequence[Rows], theirs: Sequence[Rows]) -> None:
    """Each figure is the median of the rounds; of the single pods, of all of them."""
    print(f"\n{'':<28}{'ours':>10}{'peer':>10}{'ratio':>8}{'bar':>6}")
    for name, bar in BARS.items():
        mine, other = figure(ours, name), figure(theirs, name)
        ratio = mine / other if mine and other else None
        shown = [f"{each:.2f} s" if each else "-" for each in (mine, other)]
        mark = " !" if ratio and ratio > bar else ""
        print(f"{TITLES[name]:<28}{shown[0]:>10}{shown[1]:>10}{f'{ratio:.2f}' if ratio else '-':>8}{bar:>6}{mark}")


TITLES = {"one pod": "one pod, create to Ready", "pods at once": "many at once, last Ready", "delete": "delete those, last gone"}


def figure(rounds: Sequence[Rows], name: str) -> float | None:
    values = [row["max_s"] for rows in rounds for row in rows if name in row["op"] and row.get("max_s") is not None]
    return statistics.median(values) if values else None


if __name__ == "__main__":
    if shutil.which("kubectl") is None:
        sys.exit("kubectl, which makes the pods, is not installed: make setup")
    main()

"""A second node for a cluster of :mod:`tests.support.cluster`: a machine at the other end of the first one's cable.

    with running_cluster("--pod-routes=direct") as cluster, joined_node(cluster) as node:
        node.load(archive); cluster.kubectl("get", "nodes")

It has a network namespace, a containerd, a data folder and cgroups of its own, and runs what `up` runs on a node (kubelet, proxy,
DNS) with the same flags. Of the first machine it has the address of the API server and the authority's key.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bootstrap.images import PAUSE_REFERENCE, pause_image, write_archive
from bootstrap.kubeconfigs import write_kubeconfigs
from bootstrap.pki import Identity, ensure_pki
from cli.cluster import containerd, plan
from cli.cluster.layout import Layout
from cli.cluster.settings import Settings
from cli.up import make_folders
from tests.support.cluster import ADDRESS as FIRST_ADDRESS
from tests.support.cluster import GATEWAY, Cluster, environment, eventually
from tests.support.containerd import clean_up
from tests.support.node import is_ready, own_cgroups

ADDRESS = "192.0.2.11"
NAME = "node-2"
_PREPARE = "from cli.cluster.preflight import prepare_kernel; prepare_kernel()"  # forwarding is a network namespace's own


@dataclass(frozen=True)
class JoinedNode:
    """Its machine's network namespace, its folders and the flags that it was started with."""

    namespace: str
    layout: Layout
    settings: Settings

    def inside(self, *argv: str) -> list[str]:
        """The command line that runs ``argv`` on this machine's network."""
        return ["nsenter", f"--net=/run/netns/{self.namespace}", "--", *argv]

    def load(self, archive: Path) -> None:
        """Give its runtime the images of an archive. Raises click.ClickException."""
        containerd.import_archive(containerd.socket_of(self.layout, self.settings), archive)


@contextmanager
def joined_node(cluster: Cluster) -> Iterator[JoinedNode]:
    """A node that is Ready; removed with its object at the end, whatever happened. Blocks."""
    layout = Layout(Path(tempfile.mkdtemp(prefix="pyb-", dir="/var/tmp")))
    settings = Settings(node_name=NAME, node_ip=ADDRESS, pod_routes="direct")
    started: list[subprocess.Popen[bytes]] = []
    with _machine(cluster) as namespace, own_cgroups(layout.cgroup_root.strip("/")):
        node = JoinedNode(namespace, layout, settings)
        try:
            _write_keys(cluster, layout)
            subprocess.run(node.inside(sys.executable, "-c", _PREPARE), check=True, env=environment())
            runtime = containerd.specification(layout, settings)
            started.append(_start(node, runtime.argv, runtime.log))
            eventually(lambda: containerd.answers(containerd.socket_of(layout, settings)), 60, "containerd answers")
            pause = layout.images / "pause.tar"
            write_archive([pause_image(PAUSE_REFERENCE)], pause)
            node.load(pause)
            *_, daemons = plan.daemons(layout, settings, containerd.endpoint(layout, settings))
            started.append(_start(node, daemons.argv, daemons.log))
            eventually(lambda: is_ready(cluster.get("node", NAME)), 60, f"{NAME} is Ready; see {daemons.log}")
            yield node
        finally:
            for process in reversed(started):
                process.kill()  # nothing of it stays
                process.wait()
            clean_up(layout.data_dir)
            cluster.kubectl("delete", "node", NAME, "--ignore-not-found", check=False)


@contextmanager
def _machine(cluster: Cluster) -> Iterator[str]:
    """A network namespace that the loose end of the first machine's cable is plugged into."""
    name = f"{cluster.namespace}-2"
    _ip("netns", "add", name)
    try:
        _ip("-n", cluster.namespace, "link", "set", "uplink", "netns", name)
        inside = ("-n", name)
        _ip(*inside, "link", "set", "lo", "up")
        _ip(*inside, "link", "set", "uplink", "name", "eth0")
        _ip(*inside, "address", "add", f"{ADDRESS}/24", "dev", "eth0")
        _ip(*inside, "link", "set", "eth0", "up")
        _ip(*inside, "route", "add", "default", "via", GATEWAY, "dev", "eth0")
        yield name
    finally:
        # A cable that goes with this end takes the first machine's address along, and `down` would ask nobody until it gives up.
        back = (("eth0", "down"), ("eth0", "name", "uplink"), ("uplink", "netns", cluster.namespace))
        for words in back:
            subprocess.run(["ip", "-n", name, "link", "set", *words], check=False, capture_output=True)
        subprocess.run(["ip", "-n", cluster.namespace, "link", "set", "uplink", "up"], check=False, capture_output=True)
        subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def _write_keys(cluster: Cluster, layout: Layout) -> None:
    """As `up` would, with the cluster's authorities; daemons find the API server on the first machine."""
    make_folders(layout)
    for name in ("ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key"):
        shutil.copy(cluster.data_dir / "pki" / name, layout.pki / name)
    settings = Settings()
    ensure_pki(layout.pki, Identity(NAME, ADDRESS, settings.service_ip))
    there = Identity(NAME, FIRST_ADDRESS, settings.service_ip)
    write_kubeconfigs(layout.pki, layout.kubeconfigs, layout.admin_kubeconfig, there)


def _start(node: JoinedNode, argv: Sequence[str], log: Path) -> "subprocess.Popen[bytes]":
    with log.open("wb") as output:
        return subprocess.Popen(
            node.inside(*argv), stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment(), start_new_session=True
        )


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)

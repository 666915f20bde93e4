"""The daemons of a node, each started by hand: before the API server, through its absence, and stopped; containers stay."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.cluster import ADDRESS, network, require_node
from tests.support.containerd import RunningContainerd, running_containerd
from tests.support.daemons import NODE, Bench, Daemon, bench

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]


@dataclass
class Node:
    """A network with a container runtime and keys, in which daemons are started."""

    keys: Bench
    runtime: RunningContainerd
    name: str  # of the network namespace

    def curl(self, url: str, *options: str) -> str:
        """The body and the status."""
        argv = ["curl", "--silent", "--insecure", "--max-time", "3", "--write-out", " %{http_code}", *options, url]
        return subprocess.run([*self.keys.wrap, *argv], capture_output=True, text=True, check=False).stdout

    def start(self, verb: str, *flags: str) -> Daemon:
        return self.keys.start(verb, f"--kubeconfig={self.keys.kubeconfig(verb)}", *flags)

    def start_kubelet(self, *flags: str) -> Daemon:
        """``flags`` take the place of the kubeconfig."""
        return self.keys.start(
            "kubelet",
            *(flags or (f"--kubeconfig={self.keys.kubeconfig('kubelet')}",)),
            f"--container-runtime-endpoint={self.runtime.endpoint}",
            f"--root-dir={self.keys.folder / 'kubelet'}",
            f"--cgroup-root=/pybernetes-{self.name}",
            f"--cni-conf-dir={self.runtime.where.cni_conf_dir}",
            f"--client-ca-file={self.keys.pki / 'ca.crt'}",
            f"--hostname-override={NODE}",
            f"--node-ip={ADDRESS}",
            "--pod-cidr=10.244.0.0/24",
        )

    def start_apiserver(self, *flags: str) -> Daemon:
        server = self.keys.start("apiserver", *self.keys.apiserver_flags(*flags))
        self.keys.wait(server, lambda: self.keys.kubectl("get", "--raw", "/readyz").out == "ok")
        return server

    def containers(self) -> set[str]:
        argv = ["ctr", "--address", str(self.runtime.where.socket), "--namespace", "k8s.io", "tasks", "ls"]
        lines = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()[1:]
        return {line.split()[0] for line in lines if "RUNNING" in line}

    def phase(self) -> str:
        return self.keys.kubectl("get", "pod", "p", "-o", "jsonpath={.status.phase}").out

    def ready(self) -> bool:
        wanted = 'jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}'
        return self.keys.kubectl("get", "nodes", "-o", wanted).out == "True"


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    require_node()
    with network() as name:
        wrap = ["nsenter", f"--net=/run/netns/{name}", "--"]
        async with running_containerd(wrap) as runtime:
            with bench(tmp_path / "c", wrap) as keys:
                yield Node(keys, runtime, name)


# bound to a node, and without a token of an account that no controller makes here
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {
        "nodeName": NODE,
        "automountServiceAccountToken": False,
        "containers": [{"name": "c", "image": "docker.io/library/busybox:1.35", "command": ["sleep", "600"]}],
    },
}
ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
HEALTH = ("http://127.0.0.1:10248/healthz", "http://127.0.0.1:10249/healthz")


async def test_a_node_by_hand(node: Node) -> None:
    await asyncio.to_thread(by_hand, node)


def by_hand(node: Node) -> None:
    keys = node.keys
    kubelet = node.start_kubelet()
    proxy = node.start("proxy", f"--hostname-override={NODE}", "--cluster-cidr=10.244.0.0/16")
    keys.wait(kubelet, lambda: node.curl(HEALTH[0]) == "ok 200")
    keys.wait(proxy, lambda: node.curl(HEALTH[1]) == "ok 200")
    keys.wait(kubelet, lambda: node.curl("https://127.0.0.1:10250/metrics") == "Unauthorized 401")

    server = node.start_apiserver()
    keys.wait(kubelet, node.ready)
    for made in (ACCOUNT, POD):
        created = keys.kubectl("create", "-f", "-", stdin=json.dumps(made))
        assert created.code == 0, created
    keys.wait(kubelet, lambda: node.phase() == "Running")
    metrics_are_guarded(node, kubelet)
    before = node.containers()

    server.stop(signal.SIGKILL)
    second = node.start_kubelet()
    assert second.ended() == 1
    assert "Error: kubelet: cannot listen on 127.0.0.1:10248: Address already in use" in second.log
    server = node.start_apiserver()
    assert keys.kubectl("delete", "pod", "p", "--wait=false", "--grace-period=600").code == 0
    keys.wait(kubelet, lambda: "Killing" in keys.kubectl("get", "events").out)

    for daemon in (kubelet, proxy, server):
        assert daemon.stop() == 0, daemon.log
    assert node.containers() == before


def metrics_are_guarded(node: Node, kubelet: Daemon) -> None:
    bearer = ("--header", f"Authorization: Bearer {node.keys.token}")
    assert node.curl("https://127.0.0.1:10250/metrics", "--header", "Authorization: Bearer wrong") == "Unauthorized 401"
    told = lambda: node.curl("https://127.0.0.1:10250/metrics", *bearer)  # noqa: E731
    node.keys.wait(kubelet, lambda: "kubelet_running_pods 1.0" in told(), 10)
    assert "rest_client_requests_total" in told()
    assert "404" in node.curl("http://127.0.0.1:10248/metrics")
    assert "kubeproxy_sync_proxy_rules_duration_seconds" in node.curl("http://127.0.0.1:10249/metrics")
    assert node.curl("http://127.0.0.1:10249/proxyMode") == "iptables 200"
    assert '"nodeEligible":true' in node.curl("http://127.0.0.1:10256/healthz")


async def test_a_node_joins_by_a_token(node: Node) -> None:
    await asyncio.to_thread(by_token, node)


def by_token(node: Node) -> None:
    """Killed twice on the way, it makes one request; its port waits for a certificate that an administrator approves."""
    keys, folder = node.keys, node.keys.folder
    node.start_apiserver("--enable-bootstrap-token-auth=true")
    authority = [
        f"--cluster-signing-{kind}-file={keys.pki / f'ca.{ending}'}" for kind, ending in (("cert", "crt"), ("key", "key"))
    ]
    manager = node.start("controller-manager", "--leader-elect=false", *authority)
    argv = [
        *keys.wrap,
        sys.executable,
        "-m",
        "cli",
        "token",
        "create",
        "--print-kubeconfig",
        f"--kubeconfig={keys.admin_kubeconfig}",
    ]
    made = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    (folder / "bootstrap.kubeconfig").write_text(made)
    joining = (
        f"--bootstrap-kubeconfig={folder / 'bootstrap.kubeconfig'}",
        f"--kubeconfig={folder / 'joined.kubeconfig'}",
        f"--cert-dir={folder / 'node-pki'}",
        "--rotate-certificates",
        "--rotate-server-certificates",
    )
    for seconds in (0.9, 1.3):
        kubelet = node.start_kubelet(*joining)
        time.sleep(seconds)
        kubelet.stop(signal.SIGKILL)
    kubelet = node.start_kubelet(*joining)
    keys.wait(kubelet, node.ready)
    current = folder / "node-pki" / "kubelet-client-current.pem"
    assert current.is_symlink()
    assert keys.kubectl("auth", "whoami", kubeconfig=folder / "joined.kubeconfig").out.count(f"system:node:{NODE}") == 1

    def requests(signer: str) -> list[str]:
        shown = keys.kubectl("get", "csr", "--no-headers", "-o", "custom-columns=N:.metadata.name,S:.spec.signerName").out
        return [line.split()[0] for line in shown.splitlines() if line.endswith(signer)]

    assert len(requests("/kube-apiserver-client-kubelet")) == 1
    keys.wait(kubelet, lambda: requests("/kubelet-serving"))
    assert not (folder / "node-pki" / "kubelet-server-current.pem").exists()
    shown = ("--cacert", str(keys.pki / "ca.crt"))

    def approved_and_served() -> bool:
        """The killed ones may have asked as well, each with a key that went with it."""
        approved = keys.kubectl("certificate", "approve", *requests("/kubelet-serving"))
        assert approved.code == 0, approved
        return "Unauthorized 401" in verified(node, *shown)

    keys.wait(kubelet, approved_and_served)
    for daemon in (kubelet, manager):
        assert daemon.stop() == 0, daemon.log


def verified(node: Node, *options: str) -> str:
    """As ``Node.curl``, by the node's address and trusting nobody but the given authority."""
    argv = ["curl", "--silent", "--max-time", "3", "--write-out", " %{http_code}", *options, f"https://{ADDRESS}:10250/pods"]
    return subprocess.run([*node.keys.wrap, *argv], capture_output=True, text=True, check=False).stdout

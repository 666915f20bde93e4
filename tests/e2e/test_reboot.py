"""The machine loses power: no process, mount, interface or packet rule survives, the disk does. `up` brings the pods back."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.cluster.layout import Layout
from cli.cluster.teardown import kill_cgroup, remove_cgroups, unmount_below
from tests.support.cluster import Cluster, eventually, running_cluster
from tests.support.leftovers import counted, leftovers, marked_processes, shims
from tests.support.manifests import pod, web

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]


@pytest.fixture
def machine() -> Iterator[Cluster]:
    with running_cluster() as cluster:
        cluster.pybernetes("demo")
        cluster.kubectl("delete", "deployment,service", "web")
        yield cluster


def power_cut(cluster: Cluster) -> None:
    layout = Layout(cluster.data_dir)
    pids = [int(line.split()[0]) for line in marked_processes(cluster)]
    for pid in {*pids, *cluster.processes().values(), *shims(cluster)}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    kill_cgroup(layout.cgroup_root)
    eventually(lambda: unmount_below(cluster.data_dir) == [], 10)
    remove_cgroups(layout.cgroup_root)
    for line in cluster.run("ip", "-brief", "link").stdout.splitlines():
        name = line.split()[0].partition("@")[0]
        if name.startswith(("veth", "cni")):
            cluster.run("ip", "link", "delete", name, check=False)
    for table in ("nat", "filter", "mangle"):
        cluster.run("iptables", "-w", "-t", table, "-F")
        cluster.run("iptables", "-w", "-t", table, "-X")
    for name in (layout.containerd / "state").glob("*cri*/netns/*"):
        name.unlink()  # on a real machine they are on a file system in memory
    assert marked_processes(cluster) == []


def test_pods_start_again_and_nothing_of_before_is_left(machine: Cluster) -> None:
    machine.kubectl("apply", "-f", "-", stdin=web(replicas=2))
    volumes = [{"name": "kept", "emptyDir": {}}, {"name": "memory", "emptyDir": {"medium": "Memory"}}]
    machine.kubectl("apply", "-f", "-", stdin=pod("once", "/bin/echo", "done", restartPolicy="Never"))
    machine.kubectl("apply", "-f", "-", stdin=pod("long", "/bin/sleep", "1000", volumes=volumes))
    machine.kubectl("apply", "-f", "-", stdin=pod("doomed", "/bin/sleep", "1000"))
    machine.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
    machine.kubectl("wait", "--for=condition=Ready", "pod/long", "pod/doomed", "--timeout=60s")
    eventually(lambda: machine.get("pod", "once")["status"]["phase"] == "Succeeded", 30)
    machine.kubectl("delete", "pod", "doomed", "--wait=false", "--grace-period=300")

    power_cut(machine)
    began = time.monotonic()
    machine.pybernetes("up", "--detach")

    address = machine.get("service", "web")["spec"]["clusterIP"]
    eventually(lambda: "Hello from web-" in machine.curl(f"http://{address}/"), 60)
    eventually(lambda: restarts(machine, "long") == 1, 30)
    assert time.monotonic() - began < 60
    once = machine.get("pod", "once")["status"]
    assert (once["phase"], once["containerStatuses"][0]["restartCount"]) == ("Succeeded", 0)
    assert [restarts(machine, name) for name in names(machine, "app=web")] == [1, 1]
    eventually(lambda: "doomed" not in names(machine), 60, "a pod that was being deleted is let go")
    kept = frozenset(item["metadata"]["uid"] for item in machine.get("pods")["items"])
    eventually(lambda: leftovers(machine, kept) == {}, 80)
    expected = {"veth": 3, "network namespace": 3, "address": 3, "shim": 3}
    eventually(lambda: counted(machine) == expected, 30, f"{counted(machine)}")
    assert "0.log" in machine.run("ls", str(log_folder(machine, "long"))).stdout
    assert Path("/proc/self/mountinfo").read_text().count(f"{machine.data_dir}/kubelet") >= 4


def names(cluster: Cluster, *selector: str) -> list[str]:
    chosen = ["-l", *selector] if selector else []
    return [item["metadata"]["name"] for item in cluster.get("pods", *chosen)["items"]]


def restarts(cluster: Cluster, name: str) -> int:
    status = cluster.get("pod", name)["status"]["containerStatuses"][0]
    return int(status["restartCount"]) if "running" in status["state"] else -1


def log_folder(cluster: Cluster, name: str) -> Path:
    uid = cluster.get("pod", name)["metadata"]["uid"]
    return Layout(cluster.data_dir).pod_logs / f"default_{name}_{uid}" / "main"

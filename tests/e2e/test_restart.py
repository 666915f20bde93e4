"""Faults are normal: daemons are killed, all of them at once, stopped and resumed. Nothing acknowledged is lost, nothing
that runs is restarted, nothing is doubled."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.cluster.layout import Layout
from tests.support.cluster import Cluster, eventually, running_cluster
from tests.support.manifests import web

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def resilient() -> Iterator[Cluster]:
    """A cluster of this module's own, with two web pods, whose parts may be killed."""
    with running_cluster() as cluster:
        cluster.pybernetes("demo")
        cluster.kubectl("delete", "deployment,service", "web")
        eventually(lambda: not cluster.get("pods")["items"], 40, "the demo's pods are gone")
        cluster.kubectl("create", "namespace", "shop")
        cluster.kubectl("apply", "-n", "shop", "-f", "-", stdin=web(replicas=2))
        cluster.kubectl("rollout", "status", "deployment/web", "-n", "shop", "--timeout=60s")
        yield cluster


def answers(cluster: Cluster) -> bool:
    address = cluster.get("service", "web", "-n", "shop")["spec"]["clusterIP"]
    return "Hello from web-" in cluster.curl(f"http://{address}/")


def restarts(cluster: Cluster) -> list[int]:
    pods = cluster.get("pods", "-n", "shop")["items"]
    return [status["restartCount"] for item in pods for status in item["status"]["containerStatuses"]]


def test_up_again_keeps_every_process(resilient: Cluster) -> None:
    before = resilient.processes()

    resilient.pybernetes("up", "--detach")

    assert resilient.processes() == before


@pytest.mark.parametrize("part", ["apiserver", "control", "node", "containerd"])
def test_a_killed_part_comes_back_and_restarts_no_container(resilient: Cluster, part: str) -> None:
    containers = resilient.containers()
    resilient.kubectl("create", "configmap", f"before-{part}", "--from-literal=kept=yes", "-n", "shop")
    os.kill(resilient.processes()[part], signal.SIGKILL)

    resilient.pybernetes("up", "--detach")

    assert resilient.get("configmap", f"before-{part}", "-n", "shop")["data"] == {"kept": "yes"}
    eventually(lambda: answers(resilient), 20)
    assert resilient.containers() == containers
    assert set(restarts(resilient)) == {0}


def test_killing_everything_at_once_loses_nothing(resilient: Cluster) -> None:
    containers = resilient.containers()
    resilient.kubectl("create", "configmap", "last-words", "--from-literal=kept=yes", "-n", "shop")
    for pid in resilient.processes().values():
        os.kill(pid, signal.SIGKILL)

    resilient.pybernetes("up", "--detach")

    assert resilient.get("configmap", "last-words", "-n", "shop")["data"] == {"kept": "yes"}
    eventually(lambda: answers(resilient), 20)
    assert resilient.containers() == containers
    assert set(restarts(resilient)) == {0}
    eventually(lambda: resilient.kubectl("scale", "deployment/web", "--replicas=3", "-n", "shop"))
    resilient.kubectl("rollout", "status", "deployment/web", "-n", "shop", "--timeout=60s")


def test_lost_records_do_not_double_a_daemon(resilient: Cluster) -> None:
    before = resilient.processes()
    for record in (resilient.data_dir / "run").glob("*.json"):
        record.unlink()

    resilient.pybernetes("up", "--detach")

    assert resilient.processes() == before


def test_down_leaves_nothing_but_the_state_and_up_resumes_it(resilient: Cluster) -> None:
    uid = resilient.get("deployment", "web", "-n", "shop")["metadata"]["uid"]

    resilient.pybernetes("down")

    assert resilient.processes() == {}
    assert "KUBE-" not in resilient.run("iptables-save").stdout
    assert "CNI-" not in resilient.run("iptables-save").stdout
    links = resilient.run("ip", "-brief", "link").stdout
    assert "cni0" not in links
    assert "veth" not in links
    assert str(resilient.data_dir) not in resilient.run("cat", "/proc/self/mountinfo").stdout
    assert not list(Path("/sys/fs/cgroup").glob(f"*{Layout(resilient.data_dir).cgroup_root}"))
    assert (resilient.data_dir / "state.db").exists()

    resilient.pybernetes("up", "--detach")

    assert resilient.get("deployment", "web", "-n", "shop")["metadata"]["uid"] == uid
    eventually(lambda: answers(resilient), 60)
    assert not resilient.get("events", "-A", "--field-selector=reason=NetworkNotReady")["items"]

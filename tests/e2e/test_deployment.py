"""The main job: a Deployment and a Service, from kubectl to an answering address, on real containers."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from tests.support.cluster import ADDRESS, Cluster, eventually
from tests.support.manifests import web

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]


def ready(cluster: Cluster, namespace: str, name: str = "web") -> int:
    return int(cluster.get("deployment", name, "-n", namespace)["status"].get("readyReplicas", 0))


def cluster_ip(cluster: Cluster, namespace: str, name: str = "web") -> str:
    return str(cluster.get("service", name, "-n", namespace)["spec"]["clusterIP"])


def running_pods(cluster: Cluster, namespace: str) -> list[dict]:
    pods = cluster.get("pods", "-n", namespace, "-l", "app=web")["items"]
    return [item for item in pods if not item["metadata"].get("deletionTimestamp")]


def test_three_replicas_are_ready_within_ten_seconds_and_answer(cluster: Cluster, namespace: str) -> None:
    began = time.monotonic()
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=web(replicas=3, node_port=True))
    cluster.kubectl("rollout", "status", "deployment/web", "-n", namespace, "--timeout=60s")
    took = time.monotonic() - began
    service = cluster.get("service", "web", "-n", namespace)["spec"]

    eventually(lambda: "Hello from web-" in cluster.curl(f"http://{service['clusterIP']}/"), what="the cluster IP answers")
    assert "Hello from web-" in cluster.curl(f"http://{ADDRESS}:{service['ports'][0]['nodePort']}/")
    hosts = {cluster.curl(f"http://{service['clusterIP']}/") for _ in range(40)}
    assert len(hosts) == 3, "every replica gets requests"
    assert took < 10, f"ready after {took:.1f} s"


def test_scaling_up_and_down(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=web(replicas=1))
    cluster.kubectl("scale", "deployment/web", "--replicas=3", "-n", namespace)
    eventually(lambda: ready(cluster, namespace) == 3, 30)
    cluster.kubectl("scale", "deployment/web", "--replicas=1", "-n", namespace)
    eventually(lambda: len(running_pods(cluster, namespace)) == 1, 30)


def test_a_killed_container_is_restarted(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=web(replicas=1))
    eventually(lambda: ready(cluster, namespace) == 1, 30)
    (pod,) = running_pods(cluster, namespace)
    uid = pod["metadata"]["uid"]
    name = pod["metadata"]["name"]

    os.kill(process_of_pod(uid), signal.SIGKILL)

    def restarted() -> bool:
        status = cluster.get("pod", name, "-n", namespace)["status"]["containerStatuses"][0]
        return bool(status["restartCount"] == 1 and status["ready"])

    eventually(restarted, 30)


def process_of_pod(uid: str) -> int:
    """The pid of the web server's init in that pod, found by its cgroup."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if uid in (entry / "cgroup").read_text() and b"/init" in (entry / "cmdline").read_bytes():
                return int(entry.name)
        except OSError:
            continue
    raise AssertionError(f"no process of pod {uid}")


def test_a_deleted_pod_is_replaced(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=web(replicas=1))
    eventually(lambda: ready(cluster, namespace) == 1, 30)
    (before,) = running_pods(cluster, namespace)

    cluster.kubectl("delete", "pod", before["metadata"]["name"], "-n", namespace)

    eventually(lambda: ready(cluster, namespace) == 1, 30)
    (after,) = running_pods(cluster, namespace)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]


def test_deleting_the_deployment_deletes_what_it_owns(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=web(replicas=2))
    eventually(lambda: ready(cluster, namespace) == 2, 30)

    cluster.kubectl("delete", "deployment/web", "-n", namespace)

    eventually(lambda: not cluster.get("replicasets,pods", "-n", namespace)["items"], 30)
    slices = cluster.get("endpointslices", "-n", namespace)["items"]
    assert not [endpoint for item in slices for endpoint in item.get("endpoints") or []]


def test_deleting_the_namespace_deletes_everything(cluster: Cluster, namespace: str) -> None:
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=web(replicas=1))
    eventually(lambda: ready(cluster, namespace) == 1, 30)

    cluster.kubectl("delete", "namespace", namespace, "--timeout=60s", timeout=70)

    assert "NotFound" in cluster.kubectl("get", "namespace", namespace, check=False)


def test_a_rolling_update_loses_no_request(cluster: Cluster, namespace: str) -> None:
    first, second = (web(replicas=3, version=version, pre_stop=5, node_port=True) for version in "12")
    cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=first)
    cluster.kubectl("rollout", "status", "deployment/web", "-n", namespace, "--timeout=60s")
    port = cluster.get("service", "web", "-n", namespace)["spec"]["ports"][0]["nodePort"]
    urls = (f"http://{cluster_ip(cluster, namespace)}/", f"http://{ADDRESS}:{port}/")
    eventually(lambda: [cluster.curl(url) for url in urls])
    stop, lost, answered = threading.Event(), [], []

    def ask(url: str) -> None:
        while not stop.is_set():
            try:
                answered.append(cluster.curl(url, seconds=5))
            except AssertionError as error:
                lost.append(str(error))

    askers = [threading.Thread(target=ask, args=(url,)) for url in urls]
    for asker in askers:
        asker.start()
    try:
        cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=second)
        cluster.kubectl("rollout", "status", "deployment/web", "-n", namespace, "--timeout=120s", timeout=130)
        eventually(lambda: len(cluster.get("pods", "-n", namespace)["items"]) == 3, 60, "old pods are gone")
    finally:
        stop.set()
        for asker in askers:
            asker.join()

    assert lost == []
    assert len(answered) > 50


def test_undo_brings_the_former_version_back(cluster: Cluster, namespace: str) -> None:
    for version in ("1", "2"):
        cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=web(replicas=1, version=version))
        cluster.kubectl("rollout", "status", "deployment/web", "-n", namespace, "--timeout=60s")
    assert cluster.kubectl("rollout", "history", "deployment/web", "-n", namespace).count("<none>") == 2

    cluster.kubectl("rollout", "undo", "deployment/web", "-n", namespace)
    cluster.kubectl("rollout", "status", "deployment/web", "-n", namespace, "--timeout=60s")

    template = cluster.get("deployment", "web", "-n", namespace)["spec"]["template"]["spec"]["containers"][0]
    assert template["env"] == [{"name": "VERSION", "value": "1"}]

"""A device plugin beside a real kubelet: two devices in a pod, no more than there are, one that falls ill, a killed kubelet."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from bootstrap.demo import REFERENCE
from node.kubelet.podresources.api import podresources_v1_pb2 as pb
from node.kubelet.podresources.api import podresources_v1_pb2_grpc as services
from tests.support.cluster import Cluster, eventually
from tests.support.manifests import pod

pytestmark = pytest.mark.e2e

RESOURCE = "example.com/null"


@dataclass
class Plugin:
    """The test's plugin as a program of its own. What it says, containers get by ``/devices`` and ``DEVICES``."""

    cluster: Cluster
    root: Path
    process: "subprocess.Popen[str]"

    def pid(self) -> int:
        return self.process.pid

    def ill(self, *ids: str) -> None:
        (self.root / "unhealthy").write_text(" ".join(ids))


@contextmanager
def plugin_beside(cluster: Cluster, count: int) -> Iterator[Plugin]:
    root = cluster.data_dir / "plugin"
    argv = [
        sys.executable,
        "-m",
        "tests.support.device_plugin",
        str(root),
        str(cluster.data_dir / "kubelet"),
        RESOURCE,
        str(count),
    ]
    process = cluster.start(*argv, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "serving\n"
        yield Plugin(cluster, root, process)
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(10)
        process.stdout.close()


def asking(name: str, count: int, **more: Any) -> str:
    limits = {"limits": {RESOURCE: str(count)}}
    script = "trap exit TERM; while :; do sleep 1; done"
    container = {"name": "main", "image": REFERENCE, "command": ["sh", "-c", script], "resources": limits}
    return pod(name, containers=[container], terminationGracePeriodSeconds=1, **more)


def offered(cluster: Cluster) -> tuple[str | None, str | None]:
    status = cluster.get("node", "node-1")["status"]
    return status["capacity"].get(RESOURCE), status["allocatable"].get(RESOURCE)


def list_resources(cluster: Cluster) -> dict[str, list[str]]:
    """Ids of devices by pod, from the pod resources API."""
    with grpc.insecure_channel(f"unix:{cluster.data_dir}/kubelet/pod-resources/kubelet.sock") as channel:
        stub = services.PodResourcesListerStub(channel)  # type: ignore[no-untyped-call]
        told = stub.List(pb.ListPodResourcesRequest(), timeout=10)
        there = stub.GetAllocatableResources(pb.AllocatableResourcesRequest(), timeout=10)
    found = {
        each.name: sorted(device for container in each.containers for one in container.devices for device in one.device_ids)
        for each in told.pod_resources
    }
    return {**found, "": sorted(device for one in there.devices for device in one.device_ids)}


@pytest.fixture
def plugin(cluster: Cluster) -> Iterator[Plugin]:
    with plugin_beside(cluster, 3) as running:
        yield running


@pytest.mark.slow
def test_the_life_of_devices(cluster: Cluster, namespace: str, plugin: Plugin) -> None:
    def kubectl(*words: str, **options: Any) -> str:
        return cluster.kubectl(words[0], "-n", namespace, *words[1:], **options)

    def apply(manifest: str) -> None:
        kubectl("apply", "-f", "-", stdin=manifest)

    def status(name: str) -> Any:
        return json.loads(kubectl("get", "pod", name, "-o", "json"))["status"]

    def inside(script: str) -> str:
        return kubectl("exec", "two", "-c", "main", "--", "sh", "-c", script, check=False)

    def refused(name: str) -> str:
        told = eventually(lambda: (found := status(name)).get("reason") and found)
        assert (told["phase"], told["reason"]) == ("Failed", "UnexpectedAdmissionError")
        return str(told["message"])

    eventually(lambda: kubectl("get", "serviceaccount", "default"))
    eventually(lambda: offered(cluster) == ("3", "3"))
    described = cluster.kubectl("describe", "node", "node-1").replace(" ", "")
    assert described.count(f"{RESOURCE}:3") == 2

    init = {"name": "init", "image": REFERENCE, "command": ["sh", "-c", ":"], "resources": {"limits": {RESOURCE: "1"}}}
    apply(asking("two", 2, initContainers=[init]))
    kubectl("wait", "--for=condition=Ready", "pod/two", "--timeout=60s")
    assert inside("echo $DEVICES; ls /dev/d? /devices") == "d0,d1\n/dev/d0\n/dev/d1\n\n/devices:\nd0\nd1\n"
    assert inside("echo x > /dev/d0 && cat /dev/d1 && echo like /dev/null; echo x > /devices/x || echo no").startswith(
        "like /dev/null\nno\n"
    )
    has = list_resources(cluster)
    assert (has["two"], has[""]) == (["d0", "d1"], ["d0", "d1", "d2"])
    assert f"{RESOURCE}22" in cluster.kubectl("describe", "node", "node-1").replace(" ", "")

    # no more than there are, asked past the scheduler or not
    apply(asking("past", 2, nodeName="node-1"))
    what = f"requested number of devices unavailable for {RESOURCE}. Requested: 2, Available: 1"
    assert refused("past") == f"Pod was rejected: Allocate failed due to {what}, which is unexpected"
    apply(asking("waits", 2))
    eventually(lambda: f"Insufficient {RESOURCE}" in str(status("waits")["conditions"]))

    # one falls ill
    plugin.ill("d1", "d2")
    eventually(lambda: offered(cluster) == ("3", "1"))
    assert list_resources(cluster)[""] == ["d0"]
    plugin.ill()
    eventually(lambda: offered(cluster) == ("3", "3"))

    # the kubelet dies, and comes back before the plugin does
    container = status("two")["containerStatuses"][0]["containerID"]
    os.kill(plugin.pid(), signal.SIGSTOP)
    os.kill(cluster.processes()["node"], signal.SIGKILL)
    cluster.pybernetes("up", "--detach", "--node-name", "node-1")
    eventually(lambda: offered(cluster) == ("0", "0"))
    assert list_resources(cluster)["two"] == ["d0", "d1"]
    apply(asking("early", 1, nodeName="node-1"))
    what = f"no healthy devices present; cannot allocate unhealthy devices {RESOURCE}"
    assert refused("early") == f"Pod was rejected: Allocate failed due to {what}, which is unexpected"
    os.kill(plugin.pid(), signal.SIGCONT)
    eventually(lambda: offered(cluster) == ("3", "3"))
    now = status("two")
    assert (now["phase"], now["containerStatuses"][0]["containerID"]) == ("Running", container)

    # a container that starts again has the same devices; a pod that ends gives them back
    inside("kill 1")
    eventually(
        lambda: (
            status("two")["containerStatuses"][0]["restartCount"] == 1
            and "running" in status("two")["containerStatuses"][0]["state"]
        )
    )
    assert inside("echo $DEVICES") == "d0,d1\n"
    kubectl("delete", "pod", "two", "--wait=false")
    eventually(lambda: status("waits")["phase"] == "Running", 60)
    saved = json.loads((cluster.data_dir / "kubelet/device-plugins/kubelet_internal_checkpoint").read_bytes())
    assert [entry["ContainerName"] for entry in saved["Data"]["PodDeviceEntries"]] == ["main"]
    told = cluster.kubectl("get", "--raw", "/api/v1/nodes/node-1/proxy/metrics")
    assert f'kubelet_device_plugin_registration_total{{resource_name="{RESOURCE}"}} 1.0' in told
    assert f'kubelet_device_plugin_alloc_duration_seconds_count{{resource_name="{RESOURCE}"}} 1.0' in told

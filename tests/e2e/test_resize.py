"""`kubectl patch --subresource resize` on real containers: the kernel's limits change while the container runs."""

import json
from dataclasses import replace
from typing import Any

import pytest

from bootstrap.demo import REFERENCE
from tests.support import clients
from tests.support.cluster import Cluster, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

SCRIPT = (
    "while sleep 0.2; do cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max"
    " /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu.max 2>/dev/null | tr '\\n' ' ' >> /tmp/seen; done"
)


def resources(cpu: str, memory: str) -> dict[str, Any]:
    return {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"cpu": cpu, "memory": memory}}


def status(cluster: Cluster, namespace: str) -> dict[str, Any]:
    return dict(cluster.get("pod", "sized", "-n", namespace)["status"]["containerStatuses"][0])


def test_limits_grow_and_shrink_in_place(cluster: Cluster, namespace: str) -> None:
    cluster = replace(cluster, kubectl_program=clients.kubectl(clients.SECOND))  # older ones know no --subresource
    container = {"name": "main", "image": REFERENCE, "command": ["sh", "-c", SCRIPT], "resources": resources("200m", "64Mi")}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "sized"},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }
    cluster.kubectl("create", "-n", namespace, "-f", "-", stdin=json.dumps(pod))
    cluster.kubectl("wait", "pod/sized", "-n", namespace, "--for=condition=Ready", "--timeout=30s")
    before = status(cluster, namespace)
    assert before["resources"]["limits"] == {"cpu": "200m", "memory": "64Mi"}

    for cpu, memory, quota in (("400m", "128Mi", 40000), ("100m", "96Mi", 10000)):
        patch = {"spec": {"containers": [{"name": "main", "resources": resources(cpu, memory)}]}}
        cluster.kubectl("patch", "pod", "sized", "-n", namespace, "--subresource=resize", "-p", json.dumps(patch))
        eventually(lambda wanted=(cpu, memory): tuple(status(cluster, namespace)["resources"]["limits"].values()) == wanted)  # type: ignore[misc]
        limit = str(int(memory.removesuffix("Mi")) << 20)

        def kernel() -> list[str]:
            return cluster.kubectl("exec", "sized", "-n", namespace, "--", "sh", "-c", "cat /tmp/seen; : > /tmp/seen").split()

        eventually(lambda want={limit, str(quota)}: want <= set(kernel()))  # type: ignore[misc]
    after = status(cluster, namespace)
    assert (after["containerID"], after["restartCount"]) == (before["containerID"], 0)
    assert "ResizeCompleted" in cluster.kubectl("describe", "pod", "sized", "-n", namespace)

    huge = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "500"}, "limits": {"cpu": "500"}}}]}}
    cluster.kubectl("patch", "pod", "sized", "-n", namespace, "--subresource=resize", "-p", json.dumps(huge))
    eventually(lambda: "PodResizePending" in cluster.kubectl("describe", "pod", "sized", "-n", namespace))
    conditions = cluster.get("pod", "sized", "-n", namespace)["status"]["conditions"]
    (pending,) = [each for each in conditions if each["type"] == "PodResizePending"]
    assert (pending["reason"], pending["message"][:38]) == ("Infeasible", "Node didn't have enough capacity: cpu,")
    assert status(cluster, namespace)["resources"]["limits"]["cpu"] == "100m"

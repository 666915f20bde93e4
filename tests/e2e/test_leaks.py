"""Pods come and go in waves, and each wave leaves the node as it found it: no address, mount, folder or log of a pod, no
descriptor or thread more in the kubelet, and no memory.

The short form runs with the other tests; the long one by hand: ``LEAK_PODS=300 pytest -s tests/e2e/test_leaks.py``.
"""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bootstrap.demo import PORT, REFERENCE
from tests.support.cluster import Cluster, eventually, running_cluster
from tests.support.leftovers import counted, leftovers

PODS = int(os.environ.get("LEAK_PODS", "10"))
AT_ONCE = min(10, PODS // 2)
SLACK_MB, SLACK_HANDLES = 8, 6  # of the allocator; of connections and of the pool of threads, which come as they are needed

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120 + PODS * 3)]


@dataclass(frozen=True)
class Held:
    """What a process holds."""

    descriptors: int
    threads: int
    memory: float  # MB that are its alone

    @classmethod
    def by(cls, pid: int) -> "Held":
        proc = Path("/proc", str(pid))
        memory = re.search(r"^Anonymous:\s+(\d+)", (proc / "smaps_rollup").read_text(), re.MULTILINE)
        assert memory is not None
        return cls(len(list((proc / "fd").iterdir())), len(list((proc / "task").iterdir())), int(memory[1]) / 1024)


def test_waves_of_pods_leave_nothing_behind() -> None:
    with running_cluster() as cluster:
        cluster.pybernetes("demo")
        cluster.kubectl("delete", "deployment,service", "web")
        nothing_left(cluster)
        cluster.kubectl("create", "configmap", "words", "--from-literal=word=hello")
        pid, first = cluster.processes()["node"], None
        for number in range(0, PODS, AT_ONCE):
            wave(cluster, number)
            held = Held.by(pid)
            print(f"after {number + AT_ONCE} pods: {held}")  # noqa: T201 - for the person who runs the long form
            first = first or held
        assert cluster.processes()["node"] == pid
        assert first is not None
        assert held.descriptors <= first.descriptors + SLACK_HANDLES
        assert held.threads <= first.threads + SLACK_HANDLES
        assert held.memory <= first.memory + SLACK_MB


def wave(cluster: Cluster, first: int) -> None:
    """Pods to Ready, then away, then nothing of them on the node."""
    pods = [pod(f"pod-{number}") for number in range(first, first + AT_ONCE)]
    cluster.apply("\n".join(json.dumps(each) for each in pods))
    cluster.kubectl("wait", "pods", "--all", "--for=condition=Ready", "--timeout=60s", timeout=70)
    assert counted(cluster)["address"] == AT_ONCE
    cluster.kubectl("delete", "pods", "--all", "--timeout=60s", timeout=70)
    nothing_left(cluster)


def nothing_left(cluster: Cluster) -> None:
    nothing = {"veth": 0, "network namespace": 0, "address": 0, "shim": 0}
    eventually(lambda: not cluster.get("pods")["items"], 30, "pods are stuck")
    eventually(lambda: (leftovers(cluster), counted(cluster)) == ({}, nothing), 30, "the node holds on to its pods")


def pod(name: str) -> dict[str, Any]:
    """One with volumes on disk, in memory and from objects, and with every kind of probe."""
    probe = {"httpGet": {"path": "/cgi-bin/index.cgi", "port": PORT}, "periodSeconds": 1}
    paths = {"disk": "/disk", "memory": "/memory", "words": "/words"}
    main = {
        "name": "main",
        "image": REFERENCE,
        "startupProbe": {"exec": {"command": ["/bin/ls"]}, "periodSeconds": 1},
        "readinessProbe": probe,
        "livenessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
        "volumeMounts": [{"name": volume, "mountPath": path} for volume, path in paths.items()],
    }
    init = {"name": "init", "image": REFERENCE, "command": ["/bin/sh", "-c", "echo > /disk/made"], "volumeMounts": [
        {"name": "disk", "mountPath": "/disk"}
    ]}  # fmt: skip
    volumes = [
        {"name": "disk", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
        {"name": "words", "configMap": {"name": "words"}},
    ]
    spec = {"terminationGracePeriodSeconds": 1, "initContainers": [init], "containers": [main], "volumes": volumes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}

"""Chaos: pods come and go at random while parts of the cluster are killed. At the end nothing is left that should not be,
and what nobody touched was never restarted.

The short form runs with the other tests; the long one by hand: ``CHAOS_SECONDS=300 pytest tests/e2e/test_chaos.py``.
``CHAOS_SEED`` makes other choices; a run is repeated by its seed (not its timing).
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bootstrap.demo import REFERENCE
from cli.cluster.layout import Layout
from tests.support.cluster import Cluster, eventually, running_cluster
from tests.support.csi_cluster import csi_driver_beside
from tests.support.csi_driver import NAME as CSI
from tests.support.leftovers import counted, leftovers, marked_processes, service_chains
from tests.support.manifests import web

SECONDS = float(os.environ.get("CHAOS_SECONDS", "10"))
SEED = int(os.environ.get("CHAOS_SEED", "1"))
PARTS = ("node", "node", "containerd", "containerd", "apiserver", "control", "everything")
NAMESPACE = "chaos"
DRIVER = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "CSIDriver",
    "metadata": {"name": CSI},
    "spec": {"attachRequired": False, "volumeLifecycleModes": ["Persistent", "Ephemeral"]},
}

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(SECONDS * 3 + 300)]


@pytest.fixture
def storm() -> Iterator["Storm"]:
    with running_cluster() as cluster:
        cluster.pybernetes("demo")
        cluster.kubectl("delete", "deployment,service", "web")
        cluster.kubectl("create", "namespace", NAMESPACE)
        cluster.kubectl("create", "namespace", "calm")
        cluster.kubectl("apply", "-n", "calm", "-f", "-", stdin=web("rock", replicas=2))
        cluster.kubectl("rollout", "status", "deployment/rock", "-n", "calm", "--timeout=60s")
        with csi_driver_beside(cluster):
            cluster.apply(json.dumps(DRIVER))
            yield Storm(cluster, random.Random(SEED))


def test_nothing_is_left_behind(storm: "Storm") -> None:
    cluster = storm.cluster
    untouched = calm_containers(cluster)

    storm.rage(SECONDS)

    cluster.pybernetes("up", "--detach")
    assert calm_containers(cluster) == untouched, storm
    cluster.kubectl("delete", "deployment,service,pod,configmap", "--all", "-n", NAMESPACE, "--wait=false")
    eventually(lambda: not pods_left(cluster), 60, f"pods are stuck; {storm}")
    kept = frozenset(item["metadata"]["uid"] for item in cluster.get("pods", "-n", "calm")["items"])
    eventually(lambda: leftovers(cluster, kept) == {} or complain(leftovers(cluster, kept)), 80, f"leftovers; {storm}")
    expected = {"veth": 2, "network namespace": 2, "address": 2, "shim": 2}
    eventually(lambda: counted(cluster) == expected or complain(counted(cluster)), 80, f"{storm}")
    assert calm_containers(cluster) == untouched, storm
    down_leaves_nothing(cluster)


def down_leaves_nothing(cluster: Cluster) -> None:
    cluster.pybernetes("down")
    state = {"log directory", "pod directory"}  # of pods that the next `up` starts again
    assert set(leftovers(cluster)) <= state
    assert counted(cluster) == {"veth": 0, "network namespace": 0, "address": 0, "shim": 0}
    assert service_chains(cluster) == []
    assert "CNI-" not in cluster.run("iptables-save").stdout
    assert marked_processes(cluster) == []
    assert not list(Path("/sys/fs/cgroup").glob(f"*{Layout(cluster.data_dir).cgroup_root}"))
    assert str(cluster.data_dir) not in Path("/proc/self/mountinfo").read_text()


def calm_containers(cluster: Cluster) -> dict[str, Any]:
    """Container id and restart count of each container that nobody touches."""
    pods = cluster.get("pods", "-n", "calm")["items"]
    return {
        item["metadata"]["name"]: [
            (status["containerID"], status["restartCount"]) for status in item["status"]["containerStatuses"]
        ]
        for item in pods
    }


def pods_left(cluster: Cluster) -> list[str]:
    items = cluster.get("pods", "-n", NAMESPACE)["items"]
    found = [item["metadata"]["name"] for item in items]
    complain(found)
    return found


def complain(what: Any) -> Any:
    """Let `eventually` show what is still wrong."""
    if what:
        raise AssertionError(json.dumps(what, indent=1))
    return what


@dataclass
class Storm:
    """Random deeds against one cluster; prints as the list of what was done, to be read when a check fails."""

    cluster: Cluster
    dice: random.Random
    deeds: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    number: int = 0

    def rage(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        next_kill = time.monotonic() + 1
        while time.monotonic() < until:
            deed = self.dice.choice(
                [self.deploy, self.deploy, self.scale, self.roll, self.pod, self.pod, self.drop, self.drop_pod]
            )
            deed()
            if time.monotonic() >= next_kill:
                self.kill(self.dice.choice(PARTS))
                next_kill = time.monotonic() + self.dice.uniform(0.5, 4)

    def kill(self, part: str) -> None:
        self.note(f"kill {part}")
        for name, pid in self.cluster.processes().items():
            if part in (name, "everything"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(self.dice.choice([0, 0, 0.5, 2]))
        self.cluster.pybernetes("up", "--detach")

    def deploy(self) -> None:
        self.number += 1
        name = f"web-{self.number}"
        self.apply(web(name, replicas=self.dice.randint(1, 4), pre_stop=self.dice.choice([0, 0, 2])), f"deploy {name}")

    def scale(self) -> None:
        if name := self.any_of("deployment"):
            self.kubectl("scale", f"deployment/{name}", f"--replicas={self.dice.randint(0, 4)}")

    def roll(self) -> None:
        if name := self.any_of("deployment"):
            self.kubectl("set", "env", f"deployment/{name}", f"VERSION={self.dice.random()}")

    def drop(self) -> None:
        if name := self.any_of("deployment"):
            self.kubectl("delete", "deployment,service", name, "--wait=false")

    def pod(self) -> None:
        self.number += 1
        name = f"pod-{self.number}"
        self.apply(rich_pod(name, self.dice), f"pod {name}")

    def drop_pod(self) -> None:
        if name := self.any_of("pod"):
            force = self.dice.choice([[], [], ["--grace-period=1"], ["--force", "--grace-period=0"]])
            self.kubectl("delete", "pod", name, "--wait=false", *force)

    def any_of(self, kind: str) -> str | None:
        listed = self.cluster.kubectl("get", kind, "-n", NAMESPACE, "-o", "name", check=False)
        names = [line.partition("/")[2] for line in listed.splitlines() if line.startswith(kind)]
        return self.dice.choice(names) if names else None

    def apply(self, manifest: str, what: str) -> None:
        self.note(what)
        self.cluster.kubectl("apply", "-n", NAMESPACE, "-f", "-", stdin=manifest, check=False)

    def kubectl(self, *arguments: str) -> None:
        self.note(" ".join(arguments))
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.cluster.kubectl(*arguments, "-n", NAMESPACE, check=False)

    def note(self, deed: str) -> None:
        self.deeds.append(f"{time.monotonic() - self.began:6.1f} {deed}")

    def __str__(self) -> str:
        return f"seed {SEED}:\n" + "\n".join(self.deeds)


def rich_pod(name: str, dice: random.Random) -> str:
    """A pod with much to clean up: volumes of every kind, an init container, a subPath, hooks; some end by themselves."""
    mounts = [
        {"name": "memory", "mountPath": "/memory"},
        {"name": "words", "mountPath": "/words"},
        {"name": "words", "mountPath": "/one", "subPath": "word"},
        {"name": "disk", "mountPath": "/disk", "subPath": "a/b"},
    ]
    script = dice.choice(
        ["exec sleep 1000", "exec sleep 1000", "sleep 2", "sleep 1; exit 3", "trap '' TERM; while :; do sleep 1; done"]
    )
    container = {"name": "main", "image": REFERENCE, "command": ["/bin/sh", "-c", script], "volumeMounts": mounts}
    init = {"name": "init", "image": REFERENCE, "command": ["/bin/sh", "-c", "echo > /disk/made"], "volumeMounts": mounts[3:]}
    second = {"name": "second", "image": REFERENCE, "command": ["/bin/sleep", "1000"]}
    words = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"word": name}}
    spec: dict[str, Any] = {
        "terminationGracePeriodSeconds": dice.choice([0, 1, 4]),
        "restartPolicy": dice.choice(["Always", "OnFailure", "Never"]),
        "hostNetwork": dice.random() < 0.1,
        "initContainers": [init],
        "containers": [container, second][: dice.randint(1, 2)],
        "volumes": [
            {"name": "memory", "emptyDir": {"medium": "Memory"}},
            {"name": "disk", "emptyDir": {}},
            {"name": "words", "configMap": {"name": name}},
        ],
    }
    if dice.random() < 0.5:  # one that a provisioner makes, and one that a driver mounts
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
        own = {"name": "own", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}
        spec["volumes"] += [own, {"name": "inline", "csi": {"driver": CSI}}]
        mounts += [{"name": name, "mountPath": f"/{name}"} for name in ("own", "inline")]
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    return "\n".join(json.dumps(item) for item in (words, body))

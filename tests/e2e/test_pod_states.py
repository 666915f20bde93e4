"""Every state of a pod that a user can see is reached on real containers and reads as upstream's in `kubectl get` and
`describe`. A pod whose containers ran and were then ended for it shows how those ended; the reason is in its description."""

import json
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bootstrap.demo import REFERENCE
from tests.support.cluster import Cluster, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

NEVER = {"restartPolicy": "Never"}


def container(script: str = "exec sleep 1000", name: str = "main", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": REFERENCE, "imagePullPolicy": "IfNotPresent", "command": ["sh", "-c", script], **more}


@dataclass(frozen=True)
class Case:
    """``status``: what the STATUS column shows at some time. ``describe``: what `describe` must hold at the end, as patterns."""

    name: str
    status: str
    containers: list[dict[str, Any]]
    describe: tuple[str, ...] = ()
    spec: dict[str, Any] = field(default_factory=dict)
    bound: bool = False  # to the node by hand: the scheduler would have kept it away
    unless: Callable[[dict[str, Any]], bool] = lambda node: False  # this node can do what others refuse

    def manifest(self, node: str) -> dict[str, Any]:
        spec = {"terminationGracePeriodSeconds": 1, "containers": self.containers, **self.spec}
        if self.bound:
            spec["nodeName"] = node
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": self.name}, "spec": spec}


MISSING = {"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "missing", "key": "a"}}}]}
UNPULLABLE = {"image": "127.0.0.1:1/nothing:1"}
HOOK = {"lifecycle": {"postStart": {"exec": {"command": ["sh", "-c", "echo no >&2; exit 7"]}}}}
NO_PROFILE = {"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "missing.json"}}}
SCRATCH = {"volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}
PORT = {"ports": [{"containerPort": 7, "hostPort": 17007}]}
RULE = {"action": "Restart", "exitCodes": {"operator": "In", "values": [9]}}
UNREADY = {"readinessProbe": {"exec": {"command": ["sh", "-c", "exit 1"]}, "periodSeconds": 1}}

APP_ARMOR = Path("/sys/module/apparmor").exists()

CASES = [
    Case("completed", "Completed", [container("true")], (r"Reason: +Completed", r"Exit Code: +0", r"Status: +Succeeded"), NEVER),
    Case("failed", "Error", [container("exit 3")], (r"Reason: +Error", r"Exit Code: +3", r"Status: +Failed"), NEVER),
    Case(
        "crash",
        "CrashLoopBackOff",
        [container("exit 4")],
        (r"Reason: +CrashLoopBackOff", r"Last State: +Terminated", r"Exit Code: +4", r"Back-off restarting failed container"),
    ),
    Case(
        "oom",
        "OOMKilled",
        [container("exec tail /dev/zero", resources={"limits": {"memory": "16Mi"}})],
        (r"Reason: +OOMKilled", r"Exit Code: +137"),
        NEVER,
    ),
    Case(
        "no-image",
        "ErrImageNeverPull",
        [container(image="example.test/absent:1", imagePullPolicy="Never")],
        (r'Container image "example.test/absent:1" is not present with pull policy of Never',),
    ),
    Case("bad-name", "InvalidImageName", [container(image="Not An Image")], (r"couldn't parse image name",)),
    Case("pulling", "ErrImagePull", [container(**UNPULLABLE)], (r'Failed to pull image "127.0.0.1:1/nothing:1"',)),
    Case("backing-off", "ImagePullBackOff", [container(**UNPULLABLE)], (r'Back-off pulling image "127.0.0.1:1/nothing:1"',)),
    Case("no-config", "CreateContainerConfigError", [container(**MISSING)], (r'Error: configmap "missing" not found',)),
    Case(
        "root",
        "CreateContainerConfigError",
        [container(securityContext={"runAsNonRoot": True})],
        (r"container has runAsNonRoot and image will run as root",),
    ),
    Case("no-profile", "CreateContainerError|CreateContainerConfigError", [container(**NO_PROFILE)], (r"missing.json",)),
    Case(
        "no-program",
        "RunContainerError",
        [{**container(), "command": ["/no/such/program"]}],
        (r"/no/such/program.*no such file or directory", r"Reason: +(RunContainerError|CrashLoopBackOff|StartError)"),
    ),
    Case("hook", "PostStartHookError", [container(**HOOK)], (r"FailedPostStartHook",)),
    Case(
        "init-failed", "Init:Error", [container()], (r"Reason: +Error", r"Status: +Failed"),
        {**NEVER, "initContainers": [container("exit 5", "first")]},
    ),
    Case("init-crash", "Init:CrashLoopBackOff", [container()], (), {"initContainers": [container("exit 5", "first")]}),
    Case(
        "init-running",
        "Init:1/2",
        [container()],
        (r"PodInitializing",),
        {"initContainers": [container("true", "first"), container(name="second")]},
    ),
    Case(
        "init-no-image",
        "Init:ErrImageNeverPull",
        [container()],
        (),
        {"initContainers": [container(name="first", image="example.test/absent:1", imagePullPolicy="Never")]},
    ),
    Case(
        "deadline",
        "Error",
        [container()],
        (r"Reason: +DeadlineExceeded", r"Pod was active on the node longer than the specified deadline"),
        {"activeDeadlineSeconds": 2},
    ),
    Case(
        "evicted",
        "Error",
        [container("dd if=/dev/zero of=/scratch/x bs=1M count=3; exec sleep 1000", **SCRATCH)],
        (r"Reason: +Evicted", r'Usage of EmptyDir volume "scratch" exceeds the limit "1Mi"\.', r"DisruptionTarget +True"),
        {"volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "1Mi"}}]},
    ),
    Case(
        "too-big",
        "OutOfcpu",
        [container(resources={"requests": {"cpu": "500"}})],
        (r"Node didn't have enough resource: cpu, requested: 500000",),
        bound=True,
    ),
    Case(
        "elsewhere",
        "NodeAffinity",
        [container()],
        (r"Predicate NodeAffinity failed",),
        {"nodeSelector": {"example.test/zone": "moon"}},
        bound=True,
    ),
    Case(
        "forbidden",
        "SysctlForbidden",
        [container()],
        (r'forbidden sysctl: "kernel.shmmax" not allowlisted',),
        {"securityContext": {"sysctls": [{"name": "kernel.shmmax", "value": "1"}]}},
    ),
    Case(
        "unconfined",
        "AppArmor",
        [container()],
        (r"Cannot enforce AppArmor: AppArmor is not enabled on the host",),
        {"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}},
    ),
    Case("windows", "PodOSNotSupported", [container()], (r"OS field doesn't match node OS",), {"os": {"name": "windows"}}, True),
    Case(
        "own-users",
        "ContainerCreating",
        [container()],
        (r"FailedCreatePodSandBox.*can't set `spec.hostUsers: false`, runtime does not support user namespaces",),
        {"hostUsers": False},
        unless=lambda node: any(each["features"].get("userNamespaces") for each in node["status"].get("runtimeHandlers") or ()),
    ),
    Case(
        "strict-groups",
        "SupplementalGroupsPolicyNotSupported",
        [container()],
        (r"SupplementalGroupsPolicy=Strict is not supported in this node",),
        {"securityContext": {"supplementalGroupsPolicy": "Strict"}},
        bound=True,
        unless=lambda node: bool((node["status"].get("features") or {}).get("supplementalGroupsPolicy")),
    ),
    Case("port-holder", "Running", [container(**PORT)], bound=True),
    Case("port-seeker", "NodePorts", [container(**PORT)], (r"Predicate NodePorts failed",), bound=True),
    Case(
        "init-oom",
        "Init:OOMKilled",
        [container()],
        (r"Reason: +OOMKilled",),
        {**NEVER, "initContainers": [container("exec tail /dev/zero", "first", resources={"limits": {"memory": "16Mi"}})]},
    ),
    Case(
        "init-pulling",
        "Init:(ErrImagePull|ImagePullBackOff)",
        [container()],
        (r'Failed to pull image "127.0.0.1:1/nothing:1"',),
        {"initContainers": [container(name="first", **UNPULLABLE)]},
    ),
    Case(
        "ruled",
        "CrashLoopBackOff",
        [container("exit 9", restartPolicy="Never", restartPolicyRules=[RULE])],
        (r"Exit Code: +9", r"Back-off restarting failed container"),
        NEVER,
    ),
    Case(
        "no-variables",
        "CreateContainerConfigError",
        [container(env=[{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "scratch", "path": "a", "key": "A"}}}])],
        (r'Error: file "a" not found in volume "scratch"',),
        {"volumes": [{"name": "scratch", "emptyDir": {}}]},
    ),
    Case("unready", "Running", [container(**UNREADY)], (r"Readiness probe failed", r"Ready +False")),
    Case("gated", "SchedulingGated", [container()], (), {"schedulingGates": [{"name": "example.test/wait"}]}),
    Case("unplaced", "Pending", [container()], (r"FailedScheduling",), {"nodeSelector": {"example.test/zone": "moon"}}),
    Case(
        "no-volume",
        "ContainerCreating",
        [container(**SCRATCH)],
        (r'MountVolume.SetUp failed for volume "scratch" : configmap "missing" not found',),
        {"volumes": [{"name": "scratch", "configMap": {"name": "missing"}}]},
    ),
    Case(
        "stubborn",
        "Terminating",
        [container("trap '' TERM; while true; do sleep 1; done")],
        (r"Status: +Terminating", r"Termination Grace Period: +20s"),
        {"terminationGracePeriodSeconds": 20},
    ),
]  # fmt: skip
if APP_ARMOR:  # then the pod simply runs
    CASES = [case for case in CASES if case.status != "AppArmor"]


@contextmanager
def watching(cluster: Cluster, namespace: str) -> Iterator[list[tuple[str, str]]]:
    """(pod, STATUS) of every line that `kubectl get --watch` prints meanwhile."""
    seen: list[tuple[str, str]] = []
    argv = cluster.kubectl_argv("get", "pods", "-n", namespace, "--watch", "--no-headers")
    watch = cluster.start(*argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def read() -> None:
        assert watch.stdout is not None
        for line in watch.stdout:
            words = line.split()
            seen.append((words[0], words[2]))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield seen
    finally:
        watch.kill()
        watch.wait()
        reader.join(5)
        assert watch.stdout is not None
        watch.stdout.close()


def test_each_state_reads_as_upstreams(cluster: Cluster, namespace: str) -> None:
    node = cluster.get("nodes")["items"][0]
    cases = [case for case in CASES if not case.unless(node)]
    items = [case.manifest(node["metadata"]["name"]) for case in cases]
    with watching(cluster, namespace) as seen:
        cluster.kubectl(
            "create", "-n", namespace, "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
        )

        def missing() -> list[str]:
            return [
                f"{case.name} was never {case.status}, but {sorted({status for name, status in seen if name == case.name})}"
                for case in cases
                if case.name != "stubborn"
                and not any(name == case.name and re.fullmatch(case.status, status) for name, status in seen)
            ]

        def all_seen() -> bool:
            if left := missing():
                raise AssertionError("; ".join(left))
            return True

        eventually(all_seen, 90)
        cluster.kubectl("delete", "pod", "stubborn", "-n", namespace, "--wait=false")
        eventually(lambda: ("stubborn", "Terminating") in seen)

    wrong = []
    for case in cases:
        text = cluster.kubectl("describe", "pod", case.name, "-n", namespace)
        wrong += [f"{case.name}: {pattern} is not in\n{text}" for pattern in case.describe if not re.search(pattern, text)]
    assert not wrong, "\n".join(wrong)

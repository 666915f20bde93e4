"""Which cgroups a pod gets and what is written there. Pure; ``manager.py`` writes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from apimachinery.objects import pods, qos
from apimachinery.objects.requests import CPU, MEMORY, container_limits, pod_limits, pod_requests
from node.kubelet.runtime.resources import MIN_SHARES, QUOTA_PERIOD, cpu_quota, cpu_shares

_QOS_FOLDERS = {qos.GUARANTEED: "", qos.BURSTABLE: "burstable", qos.BEST_EFFORT: "besteffort"}


@dataclass(frozen=True, slots=True)
class Limits:
    """What the kernel enforces on one cgroup; None leaves a control alone."""

    shares: int | None = None
    quota: int | None = None
    memory: int | None = None
    pids: int | None = None


def pod_path(root: str, pod: Mapping[str, Any]) -> PurePosixPath:
    """``/<root>/kubepods/burstable/pod<uid>``"""
    return qos_path(root, qos.qos_class(pod)) / f"pod{pod['metadata']['uid']}"


def qos_path(root: str, quality: str) -> PurePosixPath:
    base = PurePosixPath("/", root.strip("/"), "kubepods")
    folder = _QOS_FOLDERS[quality]
    return base / folder if folder else base


def candidate_paths(root: str, uid: str) -> list[PurePosixPath]:
    """Where the cgroup of a pod may be, when only its uid is known."""
    return [qos_path(root, quality) / f"pod{uid}" for quality in _QOS_FOLDERS]


def pod_limits_of(pod: Mapping[str, Any], pids: int) -> Limits:
    """CPU weight from the requests; quota and memory only where every container has a limit."""
    requests, limits = pod_requests(pod), pod_limits(pod)
    listed = [container_limits(container) for container in pods.long_running_containers(pod)]
    own = (pods.spec_of(pod).get("resources") or {}).get("limits") or {}
    whole_cpu = CPU in own or all(CPU in each for each in listed)
    whole_memory = MEMORY in own or all(MEMORY in each for each in listed)
    return Limits(
        shares=cpu_shares(requests.get(CPU, 0)),
        quota=cpu_quota(limits[CPU], QUOTA_PERIOD) if whole_cpu and limits.get(CPU) else None,
        memory=limits[MEMORY] if whole_memory and limits.get(MEMORY) else None,
        pids=pids if pids > 0 else None,
    )


def qos_limits(
    taken: Iterable[Mapping[str, Any]], allocatable_milli: int, pods_memory: int | None = None
) -> dict[PurePosixPath, Limits]:
    """CPU weights of the classes, below a root of ``""``: the burstable pods together weigh what they request, those that
    request nothing get what is left, and all pods together weigh what the node gives them and use no more than
    ``pods_memory`` bytes."""
    burstable = sum(pod_requests(pod).get(CPU, 0) for pod in taken if qos.qos_class(pod) == qos.BURSTABLE)
    return {
        qos_path("", qos.GUARANTEED): Limits(shares=cpu_shares(allocatable_milli), memory=pods_memory),
        qos_path("", qos.BURSTABLE): Limits(shares=cpu_shares(burstable)),
        qos_path("", qos.BEST_EFFORT): Limits(shares=MIN_SHARES),
    }


def v1_writes(limits: Limits) -> list[tuple[str, str, str]]:
    """(controller, file, value)"""
    writes = []
    if limits.shares is not None:
        writes.append(("cpu", "cpu.shares", str(limits.shares)))
    if limits.quota is not None:
        writes += [("cpu", "cpu.cfs_period_us", str(QUOTA_PERIOD)), ("cpu", "cpu.cfs_quota_us", str(limits.quota))]
    if limits.memory is not None:
        writes.append(("memory", "memory.limit_in_bytes", str(limits.memory)))
    if limits.pids is not None:
        writes.append(("pids", "pids.max", str(limits.pids)))
    return writes


def v2_writes(limits: Limits) -> list[tuple[str, str]]:
    """(file, value)"""
    writes = []
    if limits.shares is not None:
        writes.append(("cpu.weight", str(cpu_weight(limits.shares))))
    if limits.quota is not None:
        writes.append(("cpu.max", f"{limits.quota} {QUOTA_PERIOD}"))
    if limits.memory is not None:
        writes.append(("memory.max", str(limits.memory)))
    if limits.pids is not None:
        writes.append(("pids.max", str(limits.pids)))
    return writes


def cpu_weight(shares: int) -> int:
    """cgroup v2's weight of cgroup v1's shares, by the formula that runtimes use."""
    return 1 + (max(shares, 2) - 2) * 9999 // 262142

"""Which cgroups a pod gets and what is written there. Pure; ``manager.py`` writes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from apimachinery.objects import pods, qos
from apimachinery.objects.requests import CPU, MEMORY, amounts, container_limits, pod_limits, pod_requests
from node.kubelet.runtime.resources import HUGEPAGES, MIN_SHARES, QUOTA_PERIOD, Node, cpu_quota, cpu_shares, page_name, page_unit

_QOS_FOLDERS = {qos.GUARANTEED: "", qos.BURSTABLE: "burstable", qos.BEST_EFFORT: "besteffort"}


@dataclass(frozen=True, slots=True)
class Limits:
    """What the kernel enforces on one cgroup; None leaves a control alone. ``period``: of ``quota``, in microseconds.
    ``hugepages``: bytes, by the kernel's name of the size (``2MB``)."""

    shares: int | None = None
    quota: int | None = None
    memory: int | None = None
    pids: int | None = None
    period: int = QUOTA_PERIOD
    hugepages: tuple[tuple[str, int], ...] = ()


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


def pod_limits_of(pod: Mapping[str, Any], pids: int, node: Node, *, unlimited: bool = False) -> Limits:
    """CPU weight from the requests; quota and memory only where every container has a limit. ``unlimited``: no quota, because
    the pod owns CPUs."""
    requests, limits = pod_requests(pod), pod_limits(pod)
    listed = [container_limits(container) for container in pods.long_running_containers(pod)]
    own = (pods.spec_of(pod).get("resources") or {}).get("limits") or {}
    whole_cpu = CPU in own or all(CPU in each for each in listed)
    whole_memory = MEMORY in own or all(MEMORY in each for each in listed)
    quota = None
    if node.quota and whole_cpu and limits.get(CPU):
        quota = -1 if unlimited else cpu_quota(limits[CPU], node.quota_period)
    return Limits(
        shares=cpu_shares(requests.get(CPU, 0)),
        quota=quota,
        memory=limits[MEMORY] if whole_memory and limits.get(MEMORY) else None,
        pids=pids if pids > 0 else None,
        period=node.quota_period,
        hugepages=tuple((page_unit(size), requests.get(f"{HUGEPAGES}{page_name(size)}", 0)) for size in node.hugepages),
    )


@dataclass(frozen=True, slots=True)
class Whole:
    """What all pods of a node have together. ``memory`` and ``pids`` bound them; None does not. ``reserve``: percentage of the
    memory that better classes request which the classes below must leave alone, out of ``allocatable`` bytes."""

    milli: int = 0
    memory: int | None = None
    pids: int | None = None
    reserve: int = 0
    allocatable: int = 0


def qos_limits(taken: Iterable[Mapping[str, Any]], whole: Whole) -> dict[PurePosixPath, Limits]:
    """Limits of the classes, below a root of ``""``: the burstable pods together weigh what they request, those that
    request nothing get what is left, and all pods together weigh what the node gives them."""
    requested = {qos.GUARANTEED: 0, qos.BURSTABLE: 0, qos.BEST_EFFORT: 0}
    weight = 0
    for pod in taken:
        quality, wanted = qos.qos_class(pod), pod_requests(pod)
        requested[quality] += wanted.get(MEMORY, 0)
        weight += wanted.get(CPU, 0) if quality == qos.BURSTABLE else 0
    burstable = best_effort = None
    if whole.reserve and whole.allocatable:
        burstable = whole.allocatable - requested[qos.GUARANTEED] * whole.reserve // 100
        best_effort = burstable - requested[qos.BURSTABLE] * whole.reserve // 100
    return {
        qos_path("", qos.GUARANTEED): root_limits(whole),
        qos_path("", qos.BURSTABLE): Limits(shares=cpu_shares(weight), memory=burstable),
        qos_path("", qos.BEST_EFFORT): Limits(shares=MIN_SHARES, memory=best_effort),
    }


def root_limits(whole: Whole) -> Limits:
    """Of the cgroup that holds all pods."""
    return Limits(shares=cpu_shares(whole.milli), memory=whole.memory, pids=whole.pids)


def reserved_limits(reserved: Mapping[str, str], *, compressible: bool) -> Limits:
    """Of a cgroup that something is reserved for: it gets that much. ``compressible``: only what it can do with less of."""
    listed = amounts(reserved)
    return Limits(
        shares=cpu_shares(listed[CPU]) if CPU in listed else None,
        memory=listed.get(MEMORY) if not compressible else None,
        pids=listed.get("pid") if not compressible else None,
    )


def v1_writes(limits: Limits) -> list[tuple[str, str, str]]:
    """(controller, file, value)"""
    writes = []
    if limits.shares is not None:
        writes.append(("cpu", "cpu.shares", str(limits.shares)))
    if limits.quota is not None:
        writes += [("cpu", "cpu.cfs_period_us", str(limits.period)), ("cpu", "cpu.cfs_quota_us", str(limits.quota))]
    if limits.memory is not None:
        writes.append(("memory", "memory.limit_in_bytes", str(limits.memory)))
    if limits.pids is not None:
        writes.append(("pids", "pids.max", str(limits.pids)))
    writes += [("hugetlb", f"hugetlb.{size}.limit_in_bytes", str(number)) for size, number in limits.hugepages]
    return writes


def v2_writes(limits: Limits) -> list[tuple[str, str]]:
    """(file, value)"""
    writes = []
    if limits.shares is not None:
        writes.append(("cpu.weight", str(cpu_weight(limits.shares))))
    if limits.quota is not None:
        writes.append(("cpu.max", f"{limits.quota if limits.quota >= 0 else 'max'} {limits.period}"))
    if limits.memory is not None:
        writes.append(("memory.max", str(limits.memory)))
    if limits.pids is not None:
        writes.append(("pids.max", str(limits.pids)))
    writes += [(f"hugetlb.{size}.max", str(number)) for size, number in limits.hugepages]
    return writes


def cpu_weight(shares: int) -> int:
    """cgroup v2's weight of cgroup v1's shares, by the formula that runtimes use."""
    return 1 + (max(shares, 2) - 2) * 9999 // 262142

"""Requests and limits as the kernel counts them: CPU shares and quota, memory, swap, huge pages, OOM scores. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apimachinery.objects import pods, qos
from apimachinery.objects.requests import CPU, MEMORY, Resources, amounts, container_requests, pod_requests
from cri.api import runtime_v1_pb2 as pb

MIN_SHARES = 2
MAX_SHARES = 262144
QUOTA_PERIOD = 100_000
_MIN_QUOTA = 1000
_GUARANTEED_SCORE = -997
_BEST_EFFORT_SCORE = 1000
_CRITICAL_PRIORITY = 2_000_000_000
_NODE_CRITICAL = "system-node-critical"


HUGEPAGES = "hugepages-"
_UNITS = (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10))


@dataclass(frozen=True, slots=True)
class Node:
    """What decides about every container of a node. ``quota_period``: microseconds. ``swap``: whether containers may swap as
    far as they request memory. ``hugepages``: the sizes that the kernel has, in bytes."""

    memory: int = 0
    quota: bool = True
    quota_period: int = QUOTA_PERIOD
    cgroup_version: int = 1
    swap: bool = False
    swap_bytes: int = 0
    swap_controller: bool = False
    hugepages: Sequence[int] = ()
    oom_group: bool = False
    """Out of memory, all processes of a container are killed (singleProcessOOMKill false; cgroup v2 only)."""


@dataclass(frozen=True, slots=True)
class Pinning:
    """Where one container runs, in the kernel's list format; empty for anywhere. ``unlimited``: it owns its CPUs, and nobody
    has to ration them."""

    cpus: str = ""
    mems: str = ""
    unlimited: bool = False


ANYWHERE = Pinning()


def cpu_shares(milli: int) -> int:
    """cgroup v1's weight of a CPU request."""
    return min(max(milli * 1024 // 1000, MIN_SHARES), MAX_SHARES) if milli else MIN_SHARES


def cpu_quota(milli: int, period: int = QUOTA_PERIOD) -> int:
    """Microseconds per period that a CPU limit allows; 0 for no limit."""
    return max(milli * period // 1000, _MIN_QUOTA) if milli else 0


def oom_score(pod: Mapping[str, Any], container: Mapping[str, Any], memory_capacity: int) -> int:
    """Who the kernel kills first: the less a container asked for, the sooner; sidecars not before those whom they serve."""
    if is_critical(pod) and pods.spec_of(pod).get("priorityClassName") == _NODE_CRITICAL:
        return _GUARANTEED_SCORE
    quality = qos.qos_class(pod)
    if quality == qos.GUARANTEED:
        return _GUARANTEED_SCORE
    if quality == qos.BEST_EFFORT or memory_capacity <= 0:
        return _BEST_EFFORT_SCORE
    share = _unclaimed_share(pod)
    requested = container_requests(container).get(MEMORY, 0)
    if pods.is_sidecar(container):
        least = min((container_requests(each).get(MEMORY, 0) for each in pods.containers(pod)), default=0)
        requested = max(requested, least)
    score = 1000 - 1000 * (requested + share) // memory_capacity
    return min(max(score, 1000 + _GUARANTEED_SCORE), _BEST_EFFORT_SCORE - 1)


def _unclaimed_share(pod: Mapping[str, Any]) -> int:
    """Each container's part of the memory that the pod requests as a whole and no container requests for itself."""
    spec = pods.spec_of(pod)
    whole = amounts((spec.get("resources") or {}).get("requests")).get(MEMORY, 0)
    if not whole:
        return 0
    claimed = pod_requests({"spec": {**spec, "resources": {}, "overhead": {}}}).get(MEMORY, 0)
    return (whole - claimed) // (len(spec.get("containers") or ()) + len(spec.get("initContainers") or ()))


def container_resources(
    pod: Mapping[str, Any], container: Mapping[str, Any], node: Node, pinning: Pinning = ANYWHERE
) -> pb.LinuxContainerResources:
    """CRI's resources of one container."""
    given = container.get("resources") or {}
    requests, limits = amounts(given.get("requests")), amounts(given.get("limits"))
    for name, number in amounts((pods.spec_of(pod).get("resources") or {}).get("limits")).items():
        if name in (CPU, MEMORY) and not limits.get(name):
            limits[name] = number  # the pod's own limit is one for each of its containers
    made = pb.LinuxContainerResources(
        cpu_shares=cpu_shares(requests.get(CPU) or limits.get(CPU, 0)),
        cpu_period=node.quota_period if node.quota else 0,
        cpu_quota=cpu_quota(limits.get(CPU, 0), node.quota_period) if node.quota else 0,
        memory_limit_in_bytes=limits.get(MEMORY, 0),
        oom_score_adj=oom_score(pod, container, node.memory),
        cpuset_cpus=pinning.cpus,
        cpuset_mems=pinning.mems,
        hugepage_limits=hugepage_limits(limits, node.hugepages),
    )
    if pinning.unlimited and node.quota:
        made.cpu_quota = -1
    if node.oom_group:
        made.unified["memory.oom.group"] = "1"
    _set_swap(made, pod, container, node)
    return made


def hugepage_limits(limits: Mapping[str, int], sizes: Sequence[int]) -> list[pb.HugepageLimit]:
    """A limit for every size there is; who asks for none gets none."""
    return [pb.HugepageLimit(page_size=page_unit(size), limit=limits.get(f"{HUGEPAGES}{page_name(size)}", 0)) for size in sizes]


def page_name(size: int) -> str:
    """As in a resource's name: ``2Mi``."""
    unit, bytes_per = next((unit, each) for unit, each in _UNITS if size >= each)
    return f"{size // bytes_per}{unit[0]}i"


def page_unit(size: int) -> str:
    """As the kernel's cgroup files say it: ``2MB``."""
    unit, bytes_per = next((unit, each) for unit, each in _UNITS if size >= each)
    return f"{size // bytes_per}{unit}"


def may_swap(pod: Mapping[str, Any], container: Mapping[str, Any], node: Node) -> bool:
    """LimitedSwap, for whom it is meant: containers of Burstable pods that request less memory than they are limited to. Never
    on cgroup v1, and not for critical pods (KEP-2400)."""
    if not node.swap or node.cgroup_version != 2 or not node.swap_controller:
        return False
    if is_critical(pod) or qos.qos_class(pod) != qos.BURSTABLE:
        return False
    given = container.get("resources") or {}
    requested, limit = (amounts(given.get(field)).get(MEMORY, 0) for field in ("requests", "limits"))
    return requested != limit


def is_critical(pod: Mapping[str, Any]) -> bool:
    """A pod that the node depends on: static, an image of one, or of a system priority."""
    source = ((pod.get("metadata") or {}).get("annotations") or {}).get("kubernetes.io/config.source", "api")
    return source != "api" or pods.is_mirror(pod) or pods.priority(pod) >= _CRITICAL_PRIORITY


def swap_limit(requested: int, node: Node) -> int:
    """Bytes of swap: as much of the node's swap as the container requests of its memory. 0 where that is more than all."""
    if node.memory <= 0 or requested > node.memory:
        return 0
    return int(requested / node.memory * node.swap_bytes)


def _set_swap(made: pb.LinuxContainerResources, pod: Mapping[str, Any], container: Mapping[str, Any], node: Node) -> None:
    if not node.swap_controller:
        return
    if node.cgroup_version != 2:
        made.memory_swap_limit_in_bytes = made.memory_limit_in_bytes  # memory and swap together: no swap
        return
    requested = amounts((container.get("resources") or {}).get("requests")).get(MEMORY, 0)
    limit = swap_limit(requested, node) if may_swap(pod, container, node) else 0
    made.unified["memory.swap.max"] = str(limit)


def sandbox_resources(requests: Resources, limits: Resources, node: Node) -> pb.LinuxContainerResources:
    """The whole pod's, a hint for runtimes that size virtual machines."""
    return pb.LinuxContainerResources(
        cpu_shares=cpu_shares(requests.get(CPU, 0)),
        cpu_period=node.quota_period,
        cpu_quota=cpu_quota(limits.get(CPU, 0), node.quota_period) if node.quota else 0,
        memory_limit_in_bytes=limits.get(MEMORY, 0),
    )

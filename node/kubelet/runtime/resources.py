"""Requests and limits as the kernel counts them: CPU shares and quota, memory limits, OOM scores. Pure."""

from collections.abc import Mapping
from typing import Any

from apimachinery.objects import qos
from apimachinery.objects.requests import CPU, MEMORY, Resources, amounts
from cri.api import runtime_v1_pb2 as pb

MIN_SHARES = 2
MAX_SHARES = 262144
QUOTA_PERIOD = 100_000
_MIN_QUOTA = 1000
_GUARANTEED_SCORE = -997
_BEST_EFFORT_SCORE = 1000
_CRITICAL_PRIORITY = 2_000_000_000


def cpu_shares(milli: int) -> int:
    """cgroup v1's weight of a CPU request."""
    return min(max(milli * 1024 // 1000, MIN_SHARES), MAX_SHARES) if milli else MIN_SHARES


def cpu_quota(milli: int, period: int = QUOTA_PERIOD) -> int:
    """Microseconds per period that a CPU limit allows; 0 for no limit."""
    return max(milli * period // 1000, _MIN_QUOTA) if milli else 0


def oom_score(pod: Mapping[str, Any], container: Mapping[str, Any], memory_capacity: int) -> int:
    """Who the kernel kills first: the less a container asked for, the sooner."""
    if int((pod.get("spec") or {}).get("priority") or 0) >= _CRITICAL_PRIORITY:
        return _GUARANTEED_SCORE
    quality = qos.qos_class(pod)
    if quality == qos.GUARANTEED:
        return _GUARANTEED_SCORE
    if quality == qos.BEST_EFFORT or memory_capacity <= 0:
        return _BEST_EFFORT_SCORE
    requested = amounts((container.get("resources") or {}).get("requests")).get(MEMORY, 0)
    score = 1000 - 1000 * requested // memory_capacity
    return min(max(score, 1000 + _GUARANTEED_SCORE), _BEST_EFFORT_SCORE - 1)


def container_resources(
    pod: Mapping[str, Any], container: Mapping[str, Any], memory_capacity: int, *, enforce_quota: bool = True
) -> pb.LinuxContainerResources:
    """CRI's resources of one container."""
    given = container.get("resources") or {}
    requests, limits = amounts(given.get("requests")), amounts(given.get("limits"))
    return pb.LinuxContainerResources(
        cpu_shares=cpu_shares(requests.get(CPU) or limits.get(CPU, 0)),
        cpu_period=QUOTA_PERIOD,
        cpu_quota=cpu_quota(limits.get(CPU, 0)) if enforce_quota else 0,
        memory_limit_in_bytes=limits.get(MEMORY, 0),
        oom_score_adj=oom_score(pod, container, memory_capacity),
    )


def sandbox_resources(requests: Resources, limits: Resources) -> pb.LinuxContainerResources:
    """The whole pod's, a hint for runtimes that size virtual machines."""
    return pb.LinuxContainerResources(
        cpu_shares=cpu_shares(requests.get(CPU, 0)),
        cpu_period=QUOTA_PERIOD,
        cpu_quota=cpu_quota(limits.get(CPU, 0)),
        memory_limit_in_bytes=limits.get(MEMORY, 0),
    )

"""Who goes first, and what they are told. Pure; ``manager`` calls it with what pods use at that moment.

Upstream's order: those above their requests before the others, then the lower priority, then who is furthest above.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apimachinery import quantity
from apimachinery.objects import pods
from apimachinery.objects.requests import EPHEMERAL_STORAGE, MEMORY, container_requests, pod_requests
from node.kubelet.eviction import thresholds as t
from node.kubelet.eviction.signals import Observation
from node.kubelet.eviction.thresholds import Threshold
from node.kubelet.sources.static_pods import is_static

REASON = "Evicted"
_SYSTEM_CRITICAL = 2_000_000_000
PRESSURE_TAINT = "node.kubernetes.io/memory-pressure"

Pod = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ContainerUsed:
    """Bytes and inodes of one container; ``rootfs`` is its writable layer."""

    memory: int = 0
    rootfs: int = 0
    rootfs_inodes: int = 0
    logs: int = 0
    logs_inodes: int = 0


@dataclass(frozen=True, slots=True)
class PodUsed:
    """What a pod uses. ``volumes`` are its disk-backed emptyDirs, configMaps and the like, by volume name."""

    containers: Mapping[str, ContainerUsed] = field(default_factory=dict)
    volumes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    other: tuple[int, int] = (0, 0)  # /etc/hosts
    processes: int = 0

    @property
    def memory(self) -> int:
        return sum(each.memory for each in self.containers.values())

    def disk(self, parts: Collection[str] = ("rootfs", "logs", "volumes")) -> int:
        """Bytes of those parts."""
        return self._sum(parts, 0)

    def inodes(self, parts: Collection[str] = ("rootfs", "logs", "volumes")) -> int:
        return self._sum(parts, 1)

    def _sum(self, parts: Collection[str], index: int) -> int:
        total = 0
        for each in self.containers.values():
            total += (each.rootfs, each.rootfs_inodes)[index] * ("rootfs" in parts)
            total += (each.logs, each.logs_inodes)[index] * ("logs" in parts)
        if "volumes" in parts:
            total += sum(volume[index] for volume in self.volumes.values()) + self.other[index]
        return total


Usage = Mapping[str, PodUsed]


def parts_of(signal: str, dedicated: bool) -> tuple[str, ...]:
    """Which parts of a pod fill the file system of a signal; ``dedicated``: images and writable layers have their own."""
    if not dedicated:
        return ("rootfs", "logs", "volumes")
    return ("logs", "volumes") if signal in (t.NODEFS, t.NODEFS_INODES) else ("rootfs",)


def is_critical(pod: Pod) -> bool:
    """Never evicted: static pods, and those of the system's own priority."""
    return is_static(pod) or pods.is_mirror(pod) or pods.priority(pod) >= _SYSTEM_CRITICAL


def rank(signal: str, listed: Sequence[Pod], usage: Usage, dedicated: bool) -> list[Pod]:
    """The pods in the order in which they are evicted. Pods that cannot be are left out."""
    resource = t.RESOURCES[signal]
    parts = parts_of(signal, dedicated)

    def order(pod: Pod) -> tuple[bool, int, int]:
        used = usage.get(str(pod["metadata"]["uid"]), PodUsed())
        if resource == "pids":
            return (False, pods.priority(pod), -used.processes)
        taken, requested = _taken_and_requested(resource, pod, used, parts)
        return (taken <= requested, pods.priority(pod), requested - taken)

    return sorted((pod for pod in listed if not is_critical(pod)), key=order)


def _taken_and_requested(resource: str, pod: Pod, used: PodUsed, parts: Collection[str]) -> tuple[int, int]:
    if resource == "memory":
        return used.memory, pod_requests(pod).get(MEMORY, 0)
    if resource == "inodes":
        return used.inodes(parts), 0
    return used.disk(parts), pod_requests(pod).get(EPHEMERAL_STORAGE, 0)


def message(threshold: Threshold, observed: Observation | None, pod: Pod, used: PodUsed) -> str:
    """What the pod's status and its event say, in upstream's words (two blanks and all)."""
    resource = t.RESOURCES[threshold.signal]
    text = f"The node was low on resource: {resource}. "
    if observed is not None:
        wanted = threshold.amount.shown(threshold.signal, observed.capacity)
        text += f"Threshold quantity: {wanted}, available: {t.shown(threshold.signal, observed.available)}. "
    for container in pods.all_containers(pod):
        name = str(container["name"])
        one = used.containers.get(name)
        if one is None or resource not in ("memory", "ephemeral-storage"):
            continue
        taken = one.memory if resource == "memory" else one.rootfs + one.logs
        asked = container_requests(container).get(MEMORY if resource == "memory" else EPHEMERAL_STORAGE, 0)
        if taken > asked:
            text += (
                f"Container {name} was using {quantity.of(taken, 'BinarySI')}, "
                f"request is {quantity.of(asked, 'BinarySI')}, has larger consumption of {resource}. "
            )
    return text


def refusal(pod: Pod, pressures: Sequence[str], quality: str, tolerates_memory_pressure: bool) -> str | None:
    """Why a node under these conditions takes no such pod; None if it does."""
    if not pressures or is_critical(pod):
        return None
    if list(pressures) == ["MemoryPressure"] and (quality != "BestEffort" or tolerates_memory_pressure):
        return None
    return f"Pod was rejected: The node had condition: [{' '.join(pressures)}]. "

"""NodeResourcesFit: requests must fit into what is left; nodes with more left score higher (LeastAllocated)."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from apimachinery.objects.requests import CPU, MEMORY
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.events import Action, ClusterEvent, Cure, On
from controlplane.scheduler.framework.interface import MAX_SCORE, Cluster
from controlplane.scheduler.framework.status import Status, unresolvable, unschedulable
from controlplane.scheduler.framework.types import NodeInfo, PodInfo

LEAST_ALLOCATED = "LeastAllocated"
MOST_ALLOCATED = "MostAllocated"


Backed = Callable[[str], object]
"""Whether an extended resource is backed by devices; where a node has none of it of its own, DynamicResources looks for them."""


def _by_nothing(resource: str) -> bool:
    return False


def insufficient(pod: PodInfo, node: NodeInfo, backed: Backed = _by_nothing) -> tuple[list[str], bool]:
    """(reasons, whether some request exceeds the whole node), in upstream's words and order."""
    reasons, hopeless = [], False
    if len(node.pods) + 1 > node.allowed_pods:
        reasons.append("Too many pods")
    offered, taken = node.allocatable, node.requested
    for name, amount in pod.requests.items():
        total = offered.get(name, 0)
        if amount > total - taken.get(name, 0) and (total or not backed(name)):
            reasons.append(f"Insufficient {name}")
            hopeless |= amount > total
    return reasons, hopeless


class NodeResourcesFit:
    name: ClassVar[str] = "NodeResourcesFit"
    local: ClassVar[bool] = True
    score_local: ClassVar[bool] = True

    def __init__(
        self, strategy: str = LEAST_ALLOCATED, weights: Mapping[str, int] | None = None, backed: Backed = _by_nothing
    ) -> None:
        self._backed = backed
        self._most = strategy == MOST_ALLOCATED
        self._weights = dict(weights or {CPU: 1, MEMORY: 1})

    def cures(self) -> Sequence[Cure]:
        return [
            Cure(On.ASSIGNED_POD, Action.DELETE | Action.UPDATE_REQUESTS),
            Cure(On.NODE, Action.ADD | Action.UPDATE_ALLOCATABLE, self._has_room),
            Cure(On.PENDING_POD, Action.UPDATE_REQUESTS),
            Cure(On.DEVICE_CLASS, Action.ADD | Action.UPDATE_OTHER),
        ]

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        reasons, hopeless = insufficient(pod, node, self._backed)
        if not reasons:
            return None
        return (unresolvable if hopeless else unschedulable)(self.name, *reasons)

    def relevant(self, pod: PodInfo, cluster: Cluster) -> bool:
        return True

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        total = weights = 0
        for name, weight in self._weights.items():
            capacity = node.allocatable.get(name, 0)
            if capacity == 0:
                continue
            taken = self._taken(name, pod, node)
            part = 0
            if taken <= capacity:
                part = (taken if self._most else capacity - taken) * MAX_SCORE // capacity
            total += part * weight
            weights += weight
        return total // weights if weights else 0

    @staticmethod
    def _taken(name: str, pod: PodInfo, node: NodeInfo) -> int:
        """What would be requested with the pod there; silent containers count for something."""
        if name == CPU:
            return node.nonzero_cpu + pod.nonzero_cpu
        if name == MEMORY:
            return node.nonzero_memory + pod.nonzero_memory
        return node.requested.get(name, 0) + pod.requests.get(name, 0)

    def _has_room(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """The empty node is large enough; whether its pods leave enough is Filter's question."""
        if event.new is None:
            return True
        node = NodeInfo("")
        node.set_node(event.new)
        return not insufficient(pod, node, self._backed)[0]

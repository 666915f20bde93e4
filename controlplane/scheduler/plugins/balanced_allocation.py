"""NodeResourcesBalancedAllocation: prefers nodes whose CPU and memory would be used to the same degree."""

from collections.abc import Sequence
from typing import ClassVar

from apimachinery.objects.requests import CPU, MEMORY
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.events import Cure
from controlplane.scheduler.framework.interface import MAX_SCORE, Cluster
from controlplane.scheduler.framework.types import NodeInfo, PodInfo


class BalancedAllocation:
    name: ClassVar[str] = "NodeResourcesBalancedAllocation"
    score_local: ClassVar[bool] = True

    def cures(self) -> Sequence[Cure]:
        return []

    def relevant(self, pod: PodInfo, cluster: Cluster) -> bool:
        return True

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """100 less the standard deviation of the used parts. Pods that request neither change nothing: all nodes alike."""
        if not pod.requests.get(CPU) and not pod.requests.get(MEMORY):
            return 0
        parts = []
        for name in (CPU, MEMORY):
            capacity = node.allocatable.get(name, 0)
            if capacity:
                taken = node.requested.get(name, 0) + pod.requests.get(name, 0)
                parts.append(min(1.0, taken / capacity))
        if len(parts) < 2:
            return MAX_SCORE
        return int((1 - abs(parts[0] - parts[1]) / 2) * MAX_SCORE)

"""NodeUnschedulable: cordoned nodes take only pods that tolerate it."""

from collections.abc import Sequence
from typing import ClassVar

from apimachinery.objects import nodes, taints
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.events import Action, ClusterEvent, Cure, On
from controlplane.scheduler.framework.status import Status, unresolvable
from controlplane.scheduler.framework.types import NodeInfo, PodInfo

_TAINT = {"key": taints.UNSCHEDULABLE, "effect": taints.NO_SCHEDULE}


class NodeUnschedulable:
    name: ClassVar[str] = "NodeUnschedulable"
    local: ClassVar[bool] = True

    def cures(self) -> Sequence[Cure]:
        return [Cure(On.NODE, Action.ADD | Action.UPDATE_UNSCHEDULABLE | Action.UPDATE_TAINTS, _is_open)]

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        if not node.unschedulable or taints.is_tolerated(_TAINT, pod.tolerations):
            return None
        return unresolvable(self.name, "node(s) were unschedulable")


def _is_open(pod: PodInfo, event: ClusterEvent) -> bool:
    return event.new is None or not nodes.is_unschedulable(event.new)

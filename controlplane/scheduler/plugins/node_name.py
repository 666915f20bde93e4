"""NodeName: a pod that names a node in its spec fits there only."""

from collections.abc import Sequence
from typing import ClassVar

from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.events import Action, Cure, On
from controlplane.scheduler.framework.status import Status, unresolvable
from controlplane.scheduler.framework.types import NodeInfo, PodInfo


def fits(pod: PodInfo, node: NodeInfo) -> bool:
    return pod.wanted_node in ("", node.name)


class NodeName:
    name: ClassVar[str] = "NodeName"
    local: ClassVar[bool] = True

    def cures(self) -> Sequence[Cure]:
        return [Cure(On.NODE, Action.ADD)]

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        return None if fits(pod, node) else unresolvable(self.name, "node(s) didn't match the requested node name")

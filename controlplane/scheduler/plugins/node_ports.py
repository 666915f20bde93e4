"""NodePorts: a host port is given once per node, protocol and address."""

from collections.abc import Sequence
from typing import ClassVar

from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.events import Action, ClusterEvent, Cure, On
from controlplane.scheduler.framework.interface import Cluster
from controlplane.scheduler.framework.status import SKIP, Status, unschedulable
from controlplane.scheduler.framework.types import NodeInfo, PodInfo


class NodePorts:
    name: ClassVar[str] = "NodePorts"
    local: ClassVar[bool] = True

    def cures(self) -> Sequence[Cure]:
        return [Cure(On.ASSIGNED_POD, Action.DELETE, _frees_a_port), Cure(On.NODE, Action.ADD)]

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> tuple[Status | None, frozenset[str] | None]:
        return (None if pod.ports else SKIP), None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        if not pod.ports or not node.conflicts(pod.ports):
            return None
        return unschedulable(self.name, "node(s) didn't have free ports for the requested pod ports")


def _frees_a_port(pod: PodInfo, event: ClusterEvent) -> bool:
    if event.old is None:
        return True
    wanted = {(protocol, number) for protocol, _, number in pod.ports}
    return any((protocol, number) in wanted for protocol, _, number in PodInfo(event.old).ports)

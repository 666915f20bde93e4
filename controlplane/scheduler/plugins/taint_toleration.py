"""TaintToleration: pods stay off nodes whose taints they do not tolerate, and avoid those that prefer to be avoided."""

from collections.abc import Sequence
from typing import ClassVar

from apimachinery.objects import taints
from apimachinery.objects.nodes import taints as taints_of
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.events import Action, ClusterEvent, Cure, On
from controlplane.scheduler.framework.interface import Cluster
from controlplane.scheduler.framework.normalize import by_highest
from controlplane.scheduler.framework.status import Status, unresolvable
from controlplane.scheduler.framework.types import NodeInfo, PodInfo

_PREFERRED_EFFECTS = ("", taints.PREFER_NO_SCHEDULE, None)


class TaintToleration:
    name: ClassVar[str] = "TaintToleration"
    local: ClassVar[bool] = True
    score_local: ClassVar[bool] = False

    def cures(self) -> Sequence[Cure]:
        return [
            Cure(On.NODE, Action.ADD | Action.UPDATE_TAINTS, _now_tolerated),
            Cure(On.PENDING_POD, Action.UPDATE_TOLERATIONS),
        ]

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        if not node.hard_taints or taints.first_untolerated(node.hard_taints, pod.tolerations, taints.HARD_EFFECTS) is None:
            return None
        return unresolvable(self.name, "node(s) had untolerated taint(s)")

    def relevant(self, pod: PodInfo, cluster: Cluster) -> bool:
        return cluster.has_preferred_taints

    def pre_score(self, state: CycleState, pod: PodInfo, cluster: Cluster, nodes: Sequence[NodeInfo]) -> None:
        state.write(self.name, [each for each in pod.tolerations if each.get("effect") in _PREFERRED_EFFECTS])

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """How many taints are not tolerated; normalized, the fewest score highest."""
        tolerations = state.read(self.name)
        return sum(not taints.is_tolerated(each, tolerations) for each in node.preferred_taints)

    def normalize(self, state: CycleState, pod: PodInfo, scores: list[int]) -> list[int]:
        return by_highest(scores, reverse=True)


def _now_tolerated(pod: PodInfo, event: ClusterEvent) -> bool:
    if event.new is None:
        return True
    return taints.first_untolerated(taints_of(event.new), pod.tolerations, taints.HARD_EFFECTS) is None

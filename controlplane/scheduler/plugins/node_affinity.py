"""NodeAffinity: ``nodeSelector`` and required node affinity filter, preferred node affinity scores."""

from collections.abc import Sequence
from typing import Any, ClassVar

from apimachinery.objects import affinity
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.events import Action, ClusterEvent, Cure, On
from controlplane.scheduler.framework.interface import Cluster
from controlplane.scheduler.framework.normalize import by_highest
from controlplane.scheduler.framework.status import SKIP, Status, unresolvable
from controlplane.scheduler.framework.types import NodeInfo, PodInfo

REFUSAL = "node(s) didn't match Pod's node affinity/selector"


class NodeAffinity:
    name: ClassVar[str] = "NodeAffinity"
    local: ClassVar[bool] = True
    score_local: ClassVar[bool] = False

    def cures(self) -> Sequence[Cure]:
        return [Cure(On.NODE, Action.ADD | Action.UPDATE_LABELS, _now_accepted)]

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> tuple[Status | None, frozenset[str] | None]:
        if pod.accepts is None:
            return SKIP, None
        names = named_nodes(pod)
        if names is not None and not names:
            return unresolvable(self.name, "pod affinity terms conflict"), None
        return None, names

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        if pod.accepts is None or (node.node is not None and pod.accepts(node.node)):
            return None
        return unresolvable(self.name, REFUSAL)

    def relevant(self, pod: PodInfo, cluster: Cluster) -> bool:
        return bool(affinity.node_affinity(pod.pod).get("preferredDuringSchedulingIgnoredDuringExecution"))

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        return affinity.preferred_weight(pod.pod, node.node) if node.node is not None else 0

    def normalize(self, state: CycleState, pod: PodInfo, scores: list[int]) -> list[int]:
        return by_highest(scores)


def named_nodes(pod: PodInfo) -> frozenset[str] | None:
    """The nodes that required terms name one by one (as daemon pods' do); None if any term leaves the name open."""
    required = affinity.node_affinity(pod.pod).get("requiredDuringSchedulingIgnoredDuringExecution")
    terms = (required or {}).get("nodeSelectorTerms") or ()
    if not terms:
        return None
    names: set[str] = set()
    for term in terms:
        in_term = _names_in(term)
        if in_term is None:
            return None
        names |= in_term
    return frozenset(names)


def _names_in(term: dict[str, Any]) -> set[str] | None:
    found: set[str] | None = None
    for each in term.get("matchFields") or ():
        if each.get("key") == "metadata.name" and each.get("operator") == "In":
            listed = set(each.get("values") or ())
            found = listed if found is None else found & listed
    return found


def _now_accepted(pod: PodInfo, event: ClusterEvent) -> bool:
    return event.new is None or pod.accepts is None or pod.accepts(event.new)

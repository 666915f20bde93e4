"""PodTopologySpread: keeps the numbers of matching pods in zones, nodes or other domains close to one another."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from apimachinery.labels import Selector
from apimachinery.meta import is_deleting
from apimachinery.objects import taints
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.events import Action, Cure, On
from controlplane.scheduler.framework.interface import MAX_SCORE, Cluster
from controlplane.scheduler.framework.status import SKIP, Status, unresolvable, unschedulable
from controlplane.scheduler.framework.types import NodeInfo, PodInfo, selector_with_keys

REFUSAL = "node(s) didn't match pod topology spread constraints"
_HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class Constraint:
    """One parsed constraint. ``own`` is 1 if the pod itself matches the selector."""

    max_skew: int
    key: str
    selector: Selector
    min_domains: int
    honors_affinity: bool
    honors_taints: bool
    own: int

    def counts_node(self, pod: PodInfo, node: NodeInfo) -> bool:
        """Whether the node's domain takes part, by ``nodeAffinityPolicy`` and ``nodeTaintsPolicy``."""
        if self.honors_affinity and pod.accepts is not None and (node.node is None or not pod.accepts(node.node)):
            return False
        return not self.honors_taints or (
            taints.first_untolerated(node.hard_taints, pod.tolerations, taints.HARD_EFFECTS) is None
        )


def constraints(pod: PodInfo, action: str) -> list[Constraint]:
    """Those with ``whenUnsatisfiable`` ``action``."""
    return [_parse(pod, each) for each in pod.spread if each.get("whenUnsatisfiable", "DoNotSchedule") == action]


def _parse(pod: PodInfo, written: Mapping[str, Any]) -> Constraint:
    selector = selector_with_keys(pod.pod, written)
    return Constraint(
        int(written.get("maxSkew") or 1),
        str(written.get("topologyKey") or ""),
        selector,
        int(written.get("minDomains") or 1),
        written.get("nodeAffinityPolicy", "Honor") == "Honor",
        written.get("nodeTaintsPolicy", "Ignore") == "Honor",
        int(selector.matches(pod.labels)),
    )


@dataclass(slots=True)
class _Spread:
    """One constraint and the matching pods per value of its key; every domain that takes part is there, if with 0."""

    constraint: Constraint
    counts: dict[str, int]
    _least: int | None = None

    def clone(self) -> "_Spread":
        return _Spread(self.constraint, dict(self.counts))

    def least(self) -> int:
        """Too few domains count as one that is empty."""
        if self._least is None:
            few = len(self.counts) < self.constraint.min_domains
            self._least = 0 if few else min(self.counts.values(), default=0)
        return self._least

    def change(self, value: str, amount: int) -> None:
        self.counts[value] += amount
        self._least = None


class _Spreads(list[_Spread]):
    def clone(self) -> "_Spreads":
        return _Spreads(each.clone() for each in self)


def _count(pod: PodInfo, found: Sequence[Constraint], cluster: Cluster) -> _Spreads:
    keys = [each.key for each in found]
    spreads = _Spreads()
    for each in found:
        eligible = {
            node.name: node.labels[each.key]
            for node in cluster.nodes()
            if all(key in node.labels for key in keys) and each.counts_node(pod, node)
        }
        counts = dict.fromkeys(eligible.values(), 0)
        for other, node in cluster.pods_selected(each.selector, pod.namespace):
            value = eligible.get(node.name)
            if value is not None and not is_deleting(other.pod):
                counts[value] += 1
        spreads.append(_Spread(each, counts))
    return spreads


class PodTopologySpread:
    name: ClassVar[str] = "PodTopologySpread"
    local: ClassVar[bool] = False
    score_local: ClassVar[bool] = False

    def cures(self) -> Sequence[Cure]:
        return [
            Cure(On.ASSIGNED_POD, Action.ADD | Action.DELETE | Action.UPDATE_LABELS),
            Cure(On.NODE, Action.ADD | Action.DELETE | Action.UPDATE_LABELS | Action.UPDATE_TAINTS),
            Cure(On.PENDING_POD, Action.UPDATE_LABELS),
        ]

    # Filter

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> tuple[Status | None, frozenset[str] | None]:
        found = constraints(pod, "DoNotSchedule")
        if not found:
            return SKIP, None
        spreads = _count(pod, found, cluster)
        state.write(self.name, spreads)
        return None, None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        spreads: Iterable[_Spread] = state.read(self.name)
        for spread in spreads:
            value = node.labels.get(spread.constraint.key)
            if value is None:
                return unresolvable(self.name, f"{REFUSAL} (missing required label)")
            skew = spread.counts.get(value, 0) + spread.constraint.own - spread.least()
            if skew > spread.constraint.max_skew:
                return unschedulable(self.name, REFUSAL)
        return None

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> None:
        self._change(state, pod, other, node, 1)

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> None:
        self._change(state, pod, other, node, -1)

    def _change(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo, sign: int) -> None:
        for spread in state.read(self.name) or ():
            value = node.labels.get(spread.constraint.key)
            if value in spread.counts and other.namespace == pod.namespace and spread.constraint.selector.matches(other.labels):
                spread.change(str(value), sign)

    # Score

    def relevant(self, pod: PodInfo, cluster: Cluster) -> bool:
        return any(each.get("whenUnsatisfiable") == "ScheduleAnyway" for each in pod.spread)

    def pre_score(self, state: CycleState, pod: PodInfo, cluster: Cluster, nodes: Sequence[NodeInfo]) -> None:
        spreads = _count(pod, constraints(pod, "ScheduleAnyway"), cluster)
        sizes: dict[str, int] = {}
        for each in spreads:
            key = each.constraint.key
            sizes[key] = len(nodes) if key == _HOSTNAME else len({node.labels[key] for node in nodes if key in node.labels})
        state.write(f"{self.name}/score", (spreads, {key: math.log(size + 2) for key, size in sizes.items()}))

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Matching pods in the node's domains, weighed by how many domains there are; -1 for nodes outside all of them."""
        spreads, weights = state.read(f"{self.name}/score")
        if any(each.constraint.key not in node.labels for each in spreads):
            return -1
        total = 0.0
        for each in spreads:
            count = each.counts.get(node.labels[each.constraint.key], 0)
            total += count * weights[each.constraint.key] + each.constraint.max_skew - 1
        return round(total)

    def normalize(self, state: CycleState, pod: PodInfo, scores: list[int]) -> list[int]:
        """Fewer is better."""
        counted = [score for score in scores if score >= 0]
        if not counted:
            return [0] * len(scores)
        low, high = min(counted), max(counted)
        if high == 0:
            return [MAX_SCORE if score >= 0 else 0 for score in scores]
        return [MAX_SCORE * (high + low - score) // high if score >= 0 else 0 for score in scores]

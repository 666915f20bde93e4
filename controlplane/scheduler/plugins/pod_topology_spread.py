"""PodTopologySpread: keeps the numbers of matching pods in zones, nodes or other domains close to one another."""

import math
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import orjson

from apimachinery.labels import Selector
from apimachinery.meta import is_deleting
from apimachinery.objects import taints
from apimachinery.objects.affinity import node_affinity
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.events import Action, Cure, On
from controlplane.scheduler.framework.interface import MAX_SCORE, Cluster
from controlplane.scheduler.framework.status import SKIP, Status, unresolvable, unschedulable
from controlplane.scheduler.framework.types import NodeInfo, PodInfo, selector_with_keys

REFUSAL = "node(s) didn't match pod topology spread constraints"
_KEPT = 64
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


def _identity(pod: PodInfo, constraint: Constraint, keys: Sequence[str]) -> bytes:
    """Equal for pods that count alike."""
    spec = pod.pod.get("spec") or {}
    nodes: Any = [spec.get("nodeSelector"), node_affinity(pod.pod)] if constraint.honors_affinity else None
    taints_of_nodes = pod.tolerations if constraint.honors_taints else None
    what = [pod.namespace, str(constraint.selector), constraint.selector.nothing, constraint.key, keys, nodes, taints_of_nodes]
    return orjson.dumps(what, option=orjson.OPT_SORT_KEYS)


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


class _Tally:
    """Counts of one constraint over all nodes, kept from pod to pod; only nodes that changed are counted again."""

    def __init__(self, pod: PodInfo, constraint: Constraint, keys: Sequence[str], cluster: Cluster) -> None:
        self._constraint, self._keys, self._pod = constraint, keys, pod
        self._nodes: dict[str, tuple[str, int]] = {}  # value and matching pods of each node that takes part
        self._sizes: Counter[str] = Counter()  # nodes per value
        self.counts: dict[str, int] = {}
        self.shape = cluster.shape
        for node in cluster.nodes():
            self._look(node)
        self._generation = cluster.generation

    def refresh(self, cluster: Cluster) -> None:
        for node in cluster.changed_since(self._generation):
            self._look(node)
        self._generation = cluster.generation

    def _look(self, node: NodeInfo) -> None:
        held = self._nodes.pop(node.name, None)
        if held is not None:
            value, count = held
            self.counts[value] -= count
            self._sizes[value] -= 1
            if not self._sizes[value]:
                del self.counts[value], self._sizes[value]
        if any(key not in node.labels for key in self._keys) or not self._constraint.counts_node(self._pod, node):
            return
        value = node.labels[self._constraint.key]
        selector, namespace = self._constraint.selector, self._pod.namespace
        count = sum(
            other.namespace == namespace and selector.matches(other.labels) and not is_deleting(other.pod)
            for other in node.pods.values()
        )
        self._nodes[node.name] = (value, count)
        self.counts[value] = self.counts.get(value, 0) + count
        self._sizes[value] += 1


class PodTopologySpread:
    name: ClassVar[str] = "PodTopologySpread"
    local: ClassVar[bool] = False
    score_local: ClassVar[bool] = False

    def __init__(self) -> None:
        self._tallies: OrderedDict[bytes, _Tally] = OrderedDict()

    def cures(self) -> Sequence[Cure]:
        return [
            Cure(On.ASSIGNED_POD, Action.ADD | Action.DELETE | Action.UPDATE_LABELS),
            Cure(On.NODE, Action.ADD | Action.DELETE | Action.UPDATE_LABELS | Action.UPDATE_TAINTS),
            Cure(On.PENDING_POD, Action.UPDATE_LABELS),
        ]

    def _count(self, pod: PodInfo, found: Sequence[Constraint], cluster: Cluster) -> _Spreads:
        keys = [each.key for each in found]
        return _Spreads(_Spread(each, self._tally(pod, each, keys, cluster).counts) for each in found)

    def _tally(self, pod: PodInfo, constraint: Constraint, keys: Sequence[str], cluster: Cluster) -> _Tally:
        """The kept counts of such a constraint of such pods."""
        name = _identity(pod, constraint, keys)
        held = self._tallies.get(name)
        if held is not None and held.shape == cluster.shape:
            held.refresh(cluster)
        else:
            held = self._tallies[name] = _Tally(pod, constraint, keys, cluster)
            if len(self._tallies) > _KEPT:
                self._tallies.popitem(last=False)
        self._tallies.move_to_end(name)
        return held

    # Filter

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> tuple[Status | None, frozenset[str] | None]:
        found = constraints(pod, "DoNotSchedule")
        if not found:
            return SKIP, None
        state.write(self.name, self._count(pod, found, cluster))
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
        spreads = self._count(pod, constraints(pod, "ScheduleAnyway"), cluster)
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

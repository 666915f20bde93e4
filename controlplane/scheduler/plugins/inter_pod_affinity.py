"""InterPodAffinity: pods that want to be near, or apart from, other pods, by topology."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.events import Action, Cure, On
from controlplane.scheduler.framework.interface import MAX_SCORE, Cluster
from controlplane.scheduler.framework.status import SKIP, Status, unresolvable, unschedulable
from controlplane.scheduler.framework.types import AffinityTerm, NodeInfo, PodInfo

_HARD_WEIGHT = 1
Domain = tuple[str, str]
"""A topology key and its value."""


@dataclass(slots=True)
class _Counts:
    """How many pods matter in each domain."""

    namespace_labels: Mapping[str, str]
    existing_anti: Counter[Domain] = field(default_factory=Counter)
    """Running pods that do not want the incoming one near."""
    affinity: Counter[Domain] = field(default_factory=Counter)
    """Running pods that match all the terms the incoming one wants near."""
    anti: Counter[Domain] = field(default_factory=Counter)
    """Running pods that match a term the incoming one wants apart."""

    def clone(self) -> "_Counts":
        return _Counts(self.namespace_labels, Counter(self.existing_anti), Counter(self.affinity), Counter(self.anti))


class InterPodAffinity:
    name: ClassVar[str] = "InterPodAffinity"
    local: ClassVar[bool] = False
    score_local: ClassVar[bool] = False

    def cures(self) -> Sequence[Cure]:
        return [
            Cure(On.ASSIGNED_POD, Action.ADD | Action.DELETE | Action.UPDATE_LABELS),
            Cure(On.NODE, Action.ADD | Action.UPDATE_LABELS),
            Cure(On.PENDING_POD, Action.UPDATE_LABELS),
        ]

    # Filter

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> tuple[Status | None, frozenset[str] | None]:
        counts = _Counts(cluster.namespace_labels(pod.namespace))
        for term, node in cluster.anti_terms(pod.labels):
            if term.matches(pod, counts.namespace_labels):
                _add(counts.existing_anti, (term,), node)
        if not counts.existing_anti and not pod.affinity and not pod.anti_affinity:
            return SKIP, None
        if pod.affinity:
            for other, node in _candidates(pod.affinity[0], cluster):
                if _matches_all(pod.affinity, other, cluster.namespace_labels(other.namespace)):
                    _add(counts.affinity, pod.affinity, node)
        for term in pod.anti_affinity:
            for _, node in _candidates(term, cluster):
                _add(counts.anti, (term,), node)
        state.write(self.name, counts)
        return None, None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        counts: _Counts = state.read(self.name)
        if pod.affinity and not self._near_enough(counts, pod, node):
            return unresolvable(self.name, "node(s) didn't match pod affinity rules")
        for term in pod.anti_affinity:
            if counts.anti.get((term.topology_key, node.labels.get(term.topology_key, "")), 0) > 0:
                return unschedulable(self.name, "node(s) didn't match pod anti-affinity rules")
        if counts.existing_anti and any(counts.existing_anti.get(domain, 0) > 0 for domain in node.labels.items()):
            return unschedulable(self.name, "node(s) didn't satisfy existing pods anti-affinity rules")
        return None

    @staticmethod
    def _near_enough(counts: _Counts, pod: PodInfo, node: NodeInfo) -> bool:
        """Each term has a match in the node's domain; the first pod of a group that wants to be together may start it."""
        if any(term.topology_key not in node.labels for term in pod.affinity):
            return False
        if all(counts.affinity.get((term.topology_key, node.labels[term.topology_key]), 0) > 0 for term in pod.affinity):
            return True
        return not counts.affinity.total() and _matches_all(pod.affinity, pod, counts.namespace_labels)

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> None:
        self._change(state, pod, other, node, 1)

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> None:
        self._change(state, pod, other, node, -1)

    def _change(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo, sign: int) -> None:
        counts: _Counts | None = state.read(self.name)
        if counts is None:
            return
        labels = counts.namespace_labels
        _add(counts.existing_anti, [term for term in other.anti_affinity if term.matches(pod, labels)], node, sign)
        if pod.affinity and _matches_all(pod.affinity, other, labels):
            _add(counts.affinity, pod.affinity, node, sign)
        _add(counts.anti, [term for term in pod.anti_affinity if term.matches(other, labels)], node, sign)

    # Score

    def relevant(self, pod: PodInfo, cluster: Cluster) -> bool:
        return bool(pod.preferred_affinity or pod.preferred_anti_affinity or cluster.nodes_with_affinity())

    def pre_score(self, state: CycleState, pod: PodInfo, cluster: Cluster, nodes: Sequence[NodeInfo]) -> None:
        """Weights per domain: what the pod wants of others, and what others want of it."""
        weights: Counter[Domain] = Counter()
        for term in pod.preferred_affinity:
            for _, node in _candidates(term, cluster):
                _add(weights, (term,), node, term.weight)
        for term in pod.preferred_anti_affinity:
            for _, node in _candidates(term, cluster):
                _add(weights, (term,), node, -term.weight)
        labels = cluster.namespace_labels(pod.namespace)
        for node in cluster.nodes_with_affinity():
            for other in node.with_affinity.values():
                _add_wishes(weights, other, pod, labels, node)
        state.write(f"{self.name}/score", weights)

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        weights: Counter[Domain] = state.read(f"{self.name}/score")
        return sum(weights.get(domain, 0) for domain in node.labels.items()) if weights else 0

    def normalize(self, state: CycleState, pod: PodInfo, scores: list[int]) -> list[int]:
        low, high = min(scores, default=0), max(scores, default=0)
        if low == high:
            return [0] * len(scores)
        return [MAX_SCORE * (score - low) // (high - low) for score in scores]


def _candidates(term: AffinityTerm, cluster: Cluster) -> Iterable[tuple[PodInfo, NodeInfo]]:
    """Running pods that the term means."""
    if term.namespace_selector is None:
        for namespace in term.namespaces:
            yield from cluster.pods_selected(term.selector, namespace)
        return
    for node in cluster.nodes():
        for other in node.pods.values():
            if term.matches(other, cluster.namespace_labels(other.namespace)):
                yield other, node


def _matches_all(terms: Sequence[AffinityTerm], pod: PodInfo, labels: Mapping[str, str]) -> bool:
    return all(term.matches(pod, labels) for term in terms)


def _add(counts: Counter[Domain], terms: Iterable[AffinityTerm], node: NodeInfo, amount: int = 1) -> None:
    for term in terms:
        value = node.labels.get(term.topology_key)
        if value is not None:
            counts[term.topology_key, value] += amount


def _add_wishes(weights: Counter[Domain], other: PodInfo, pod: PodInfo, labels: Mapping[str, str], node: NodeInfo) -> None:
    """What a running pod wants of the incoming one."""
    for term in other.affinity:
        if term.matches(pod, labels):
            _add(weights, (term,), node, _HARD_WEIGHT)
    for term in other.preferred_affinity:
        if term.matches(pod, labels):
            _add(weights, (term,), node, term.weight)
    for term in other.preferred_anti_affinity:
        if term.matches(pod, labels):
            _add(weights, (term,), node, -term.weight)

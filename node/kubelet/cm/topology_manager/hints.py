"""Merging hints: of every provider's possible places, the one place that suits all of them best. Pure; ``policy`` calls it.

Upstream walks through every combination of one hint per resource. What a combination is worth depends on three things alone:
the nodes that all its hints share, whether its hints name the same nodes, and whether all are preferred. So the combinations
are folded resource by resource, and equal ones are counted once: each resource costs at most twice the square of the number
of node sets, however many there are.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from node.kubelet.cm.interface import Hints, TopologyHint

Nodes = frozenset[int]
Distances = Mapping[int, Sequence[int]]
"""By NUMA node, its distance to each other: the rows of the firmware's table."""

_ANYWHERE = (TopologyHint(None, True),)
_NOWHERE = (TopologyHint(None, False),)


@dataclass(frozen=True, slots=True)
class Numa:
    """The NUMA nodes of a machine. ``distances`` only where the nearest of equally many nodes are to be chosen."""

    nodes: Nodes
    distances: Distances = field(default_factory=dict)

    def order(self, nodes: Nodes) -> tuple[int, float, int]:
        """Sorts sets of nodes, the better first: fewer nodes, then nearer ones, then lower ids."""
        return len(nodes), self.average_distance(nodes), sum(1 << node for node in nodes)

    def average_distance(self, nodes: Nodes) -> float:
        if not self.distances:
            return 0.0
        columns = {node: place for place, node in enumerate(sorted(self.distances))}
        pairs = [self.distances[one][columns[other]] for one in nodes for other in nodes]
        return sum(pairs) / len(pairs) if pairs else 0.0


def by_resource(provided: Iterable[Hints]) -> list[Sequence[TopologyHint]]:
    """The alternatives for each resource of each provider."""
    found: list[Sequence[TopologyHint]] = []
    for hints in provided:
        if not hints:
            found.append(_ANYWHERE)
        for name in sorted(hints):
            listed = hints[name]
            found.append(_ANYWHERE if listed is None else listed or _NOWHERE)
    return found


@dataclass(frozen=True, slots=True)
class _Combination:
    """Some hints taken together. ``named``: the nodes that all of them name, as long as that can matter; None if none has
    named any yet, or if the combination is not preferred anyway."""

    shared: Nodes
    named: Nodes | None
    preferred: bool

    def __and__(self, hint: TopologyHint) -> "_Combination":
        nodes, named = hint.affinity, self.named
        shared = self.shared if nodes is None else self.shared & nodes
        agree = nodes is None or named is None or named == nodes
        if self.preferred and hint.preferred and agree:
            return _Combination(shared, named or nodes, True)
        return _Combination(shared, None, False)


def merge(numa: Numa, alternatives: Sequence[Sequence[TopologyHint]]) -> TopologyHint:
    """The best of all combinations; all nodes, not preferred, if none shares a node."""
    combinations = {_Combination(numa.nodes, None, True)}
    for hints in alternatives:
        combinations = {combination & hint for combination in combinations for hint in hints}
    target = _most_needed(numa, alternatives)
    candidates = {TopologyHint(each.shared, each.preferred) for each in combinations if each.shared}
    if not candidates:
        return TopologyHint(numa.nodes, False)
    return min(candidates, key=lambda hint: _rank(numa, hint, target))


def _most_needed(numa: Numa, alternatives: Sequence[Sequence[TopologyHint]]) -> int:
    """How many nodes that resource needs which needs the most: what is not preferred should have as many."""
    least = [min((len(hint.affinity) for hint in hints if hint.affinity), default=0) for hints in alternatives]
    return max(least, default=0)


def _rank(numa: Numa, hint: TopologyHint, target: int) -> tuple[bool, int, int, tuple[int, float, int]]:
    """The smaller the better. Among what is not preferred: just as many nodes as needed, then a few less, then more."""
    assert hint.affinity is not None
    count = len(hint.affinity)
    if hint.preferred or count == target:
        distance = (0, 0)
    elif count < target:
        distance = (1, target - count)
    else:
        distance = (2, 0)
    return not hint.preferred, *distance, numa.order(hint.affinity)

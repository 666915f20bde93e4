"""What each topology policy makes of the hints, and whom it lets in. Pure; ``manager`` calls :func:`decide`."""

from collections.abc import Iterable, Sequence

from node.kubelet.cm.interface import Hints, TopologyHint
from node.kubelet.cm.topology_manager.hints import Numa, by_resource, merge

NONE, BEST_EFFORT, RESTRICTED, SINGLE_NUMA_NODE = "none", "best-effort", "restricted", "single-numa-node"
POLICIES = (NONE, BEST_EFFORT, RESTRICTED, SINGLE_NUMA_NODE)


def decide(policy: str, numa: Numa, provided: Iterable[Hints]) -> tuple[TopologyHint, bool]:
    """Where to allocate, and whether the pod may come in. ``policy`` is none of ``none``."""
    alternatives = by_resource(provided)
    if policy != SINGLE_NUMA_NODE:
        best = merge(numa, alternatives)
        return best, policy == BEST_EFFORT or best.preferred
    best = merge(Numa(numa.nodes), [_on_one_node(hints) for hints in alternatives])
    if best.affinity == numa.nodes:  # no one has named a node
        best = TopologyHint(None, best.preferred)
    return best, best.preferred


def _on_one_node(hints: Sequence[TopologyHint]) -> list[TopologyHint]:
    return [hint for hint in hints if hint.preferred and (hint.affinity is None or len(hint.affinity) == 1)]

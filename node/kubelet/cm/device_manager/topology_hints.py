"""On which NUMA nodes a request for devices could be met. Pure; ``manager`` answers the topology manager with it.

Source: ``generateDeviceTopologyHints`` of upstream's ``devicemanager/topology_hints.go``.
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import combinations

from node.kubelet.cm.device_manager.devices import Devices
from node.kubelet.cm.interface import TopologyHint


def hints(
    nodes: Collection[int], known: Devices, available: Collection[str], reusable: Collection[str], count: int
) -> list[TopologyHint]:
    """Every set of nodes that holds ``count`` usable devices; the smallest that could ever hold so many are preferred.

    ``known`` are all devices of the resource, used ones too. What may be reused must lie on the nodes of a hint.
    """
    fewest = min(
        (len(mask) for mask in _masks(nodes) if sum(bool(mask & set(device.nodes)) for device in known.values()) >= count),
        default=len(nodes),
    )
    placed = [frozenset(known[each].nodes) for each in reusable if each in known and known[each].nodes]
    others = [frozenset(known[each].nodes) for each in available if each in known and each not in set(reusable)]
    found = []
    for mask in _masks(nodes):
        if any(not mask & where for where in placed):
            continue
        if len(placed) + sum(bool(mask & where) for where in others) >= count:
            found.append(TopologyHint(mask, len(mask) == fewest))
    return found


def _masks(nodes: Iterable[int]) -> Iterator[frozenset[int]]:
    """Every set of nodes but the empty one, smaller ones first."""
    listed = sorted(nodes)
    for size in range(1, len(listed) + 1):
        yield from (frozenset(each) for each in combinations(listed, size))

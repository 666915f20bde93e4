"""``cpuManagerPolicyOptions``. Pure; ``config`` validates with it, ``policy`` obeys it."""

from collections.abc import Mapping
from dataclasses import dataclass

from component.featuregates import Gates
from node.kubelet.cm.topology import NODE, Topology
from node.kubelet.cm.topology_manager import policy as topology_policy
from node.kubelet.cm.topology_manager.options import boolean

FULL_CORES, ACROSS_NUMA, BY_SOCKET = "full-pcpus-only", "distribute-cpus-across-numa", "align-by-socket"
ACROSS_CORES, STRICT, BY_CACHE = "distribute-cpus-across-cores", "strict-cpu-reservation", "prefer-align-cpus-by-uncorecache"
_ATTRIBUTES = {
    FULL_CORES: "full_cores",
    ACROSS_NUMA: "across_numa",
    BY_SOCKET: "by_socket",
    ACROSS_CORES: "across_cores",
    STRICT: "strict",
    BY_CACHE: "by_cache",
}
_ALPHA, _BETA = frozenset({BY_SOCKET, ACROSS_CORES}), frozenset({ACROSS_NUMA})
_EXCLUSIVE = ((FULL_CORES, ACROSS_CORES), (ACROSS_NUMA, ACROSS_CORES), (BY_CACHE, ACROSS_CORES), (BY_CACHE, ACROSS_NUMA))


@dataclass(frozen=True, slots=True)
class Options:
    """``full_cores``: nobody shares a core. ``across_numa``: large requests come evenly from several nodes. ``by_socket``: a
    socket is as good as a node. ``across_cores``: rather one CPU of each core. ``strict``: nobody runs on reserved CPUs.
    ``by_cache``: rather on one last-level cache."""

    full_cores: bool = False
    across_numa: bool = False
    by_socket: bool = False
    across_cores: bool = False
    strict: bool = False
    by_cache: bool = False


def parse(given: Mapping[str, str], gates: Gates) -> Options:
    """Raises ValueError in upstream's words, also for an option whose gate is off."""
    for name in given:
        if name not in _ATTRIBUTES:
            raise ValueError(f'unknown CPU Manager Policy option: "{name}"')
        for level, group in (("Alpha", _ALPHA), ("Beta", _BETA)):
            if name in group and not gates.enabled(f"CPUManagerPolicy{level}Options"):
                raise ValueError(f'CPU Manager Policy {level}-level Options not enabled, but option "{name}" provided')
    options = Options(**{_ATTRIBUTES[name]: boolean(name, text) for name, text in given.items()})
    for one, other in _EXCLUSIVE:
        if getattr(options, _ATTRIBUTES[one]) and getattr(options, _ATTRIBUTES[other]):
            raise ValueError(f"static policy options {one} and {other} can not be used at the same time")
    return options


def fits(options: Options, topology: Topology, aligned: str) -> None:
    """Raise ValueError for options that do not go with the machine or with the topology policy ``aligned``."""
    if not options.by_socket:
        return
    if aligned == topology_policy.SINGLE_NUMA_NODE:
        raise ValueError(f"Topology manager {aligned} policy is incompatible with CPUManager {BY_SOCKET} policy option")
    if topology.sockets > len(topology.ids(NODE)):
        raise ValueError("Align by socket is not compatible with hardware where number of sockets are more than number of NUMA")

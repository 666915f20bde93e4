"""Which of the free CPUs a container gets. Pure; ``policy`` calls :func:`packed` or :func:`distributed`.

The larger a piece of the machine that is taken whole, the less is shared with others: sockets and NUMA nodes first, then (if
wished) caches, then cores, then single CPUs; each time from where the least is left, so that large pieces stay whole.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import ceil, inf, sqrt

from node.kubelet.cm.cpuset import CpuSet
from node.kubelet.cm.topology import CORE, NODE, SOCKET, UNCORE, Level, Topology


class NotEnoughCpusError(ValueError):
    """Fewer CPUs are free than asked for."""

    def __init__(self, requested: int, available: int) -> None:
        text = f"not enough cpus available to satisfy request: requested={requested}, available={available}"
        super().__init__(text)


class _Taking:
    """CPUs that are free, CPUs that were taken, and how many are still needed."""

    def __init__(self, topology: Topology, free: CpuSet, needed: int) -> None:
        self.topology, self.free, self.needed = topology, free, needed
        self.taken: CpuSet = frozenset()
        nodes = len(topology.ids(NODE))
        self.outer, self.inner = (NODE, SOCKET) if topology.sockets >= nodes else (SOCKET, NODE)

    def take(self, cpus: CpuSet) -> None:
        self.taken |= cpus
        self.free -= cpus
        self.needed -= len(cpus)

    def fullest_first(self, level: Level, within: CpuSet) -> list[int]:
        """Pieces that have one of ``within``, those with the fewest free CPUs first."""
        return sorted(self.topology.ids(level, within), key=lambda one: (len(self.free_in(level, one)), one))

    def free_in(self, level: Level, *ids: int) -> CpuSet:
        return self.topology.inside(level, ids, self.free)

    def order(self, level: Level) -> Iterator[int]:
        """Pieces of one level, larger pieces around them first: of the socket with the fewest free CPUs the node with the
        fewest, of that the core with the fewest."""
        seen: set[int] = set()
        outer = self.fullest_first(self.outer, self.free)
        if level is self.outer:
            yield from outer
            return
        for one in outer:
            inner = self.fullest_first(self.inner, self.free_in(self.outer, one))
            for two in inner if level is not self.inner else (None,):
                found = inner if two is None else self.fullest_first(level, self.free_in(self.inner, two))
                yield from (each for each in found if each not in seen)
                seen.update(found)

    def take_whole(self, level: Level) -> None:
        """Pieces that are wholly free, as long as no more is taken than needed."""
        for piece in list(self.order(level)):
            whole = self.topology.inside(level, [piece])
            if whole <= self.free and len(whole) <= self.needed:
                self.take(whole)

    def take_caches(self) -> None:
        """Whole caches, then the rest from one cache if one has enough."""
        self.take_whole(UNCORE)
        per_core = self.topology.cpus_per_core
        for cache in list(self.order(UNCORE)) if self.needed > 0 else ():
            cores = sorted(self.topology.ids(CORE, self.free_in(UNCORE, cache)))[: ceil(self.needed / per_core)]
            cpus = sorted(self.free_in(CORE, *cores))
            if self.needed % 2 and per_core > 1 and len(cpus) > self.needed:
                cpus = cpus[:-1]  # of the last core one is enough
            if len(cpus) == self.needed:
                self.take(frozenset(cpus))
                return

    def take_singly(self, spread: bool) -> None:
        level = self._sockets if spread else self._cores
        for cpu in list(level()):
            if self.needed <= 0:
                return
            self.take(frozenset({cpu}))

    def _cores(self) -> Iterator[int]:
        for core in self.order(CORE):
            yield from sorted(self.free_in(CORE, core))

    def _sockets(self) -> Iterator[int]:
        """Ascending numbers: on most machines siblings are numbered after all cores."""
        for socket in self.order(SOCKET):
            yield from sorted(self.free_in(SOCKET, socket))


def packed(topology: Topology, free: CpuSet, count: int, *, spread: bool = False, by_cache: bool = False) -> CpuSet:
    """``count`` of the free CPUs, as near to each other as they are. ``spread``: on as many cores as possible; ``by_cache``: on
    few last-level caches. Raises NotEnoughCpusError."""
    taking = _Taking(topology, free, count)
    if count > len(free):
        raise NotEnoughCpusError(count, len(free))
    if taking.needed > 0:
        taking.take_whole(taking.outer)
        taking.take_whole(taking.inner)
    if by_cache and taking.needed > 0:
        taking.take_caches()
    if not spread and taking.needed > 0:
        taking.take_whole(CORE)
    taking.take_singly(spread)
    return taking.taken


def distributed(topology: Topology, free: CpuSet, count: int, group: int = 1, *, spread: bool = False) -> CpuSet:
    """``count`` of the free CPUs; where one NUMA node does not have them, the same number from each of as few nodes as
    possible (KEP-2902). They come in groups of ``group``. Raises NotEnoughCpusError."""
    if count % group:
        return packed(topology, free, count, spread=spread)
    if count > len(free):
        raise NotEnoughCpusError(count, len(free))
    taking = _Taking(topology, free, count)
    if count <= 0:
        return taking.taken
    nodes = list(taking.order(NODE))
    left = {node: len(taking.free_in(NODE, node)) for node in nodes}
    groups_per_node = ceil(ceil(len(topology.cpus) / group) / len(topology.ids(NODE)))
    fewest, most = ceil(count // group / groups_per_node), min(count // group, len(nodes))
    for size in range(fewest, most + 1):
        chosen = _best_nodes(nodes, left, count, group, size)
        if chosen is None:
            continue
        combination, remainder = chosen
        share = count // size // group * group
        for node in combination:
            taking.take(packed(topology, taking.free_in(NODE, node), share, spread=spread))
        while taking.needed > 0:
            for node in remainder:
                if taking.needed > 0 and len(taking.free_in(NODE, node)) >= group:
                    taking.take(packed(topology, taking.free_in(NODE, node), group, spread=spread))
        return taking.taken
    return packed(topology, free, count, spread=spread)


def _best_nodes(
    nodes: Sequence[int], left: dict[int, int], count: int, group: int, size: int
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Of all sets of ``size`` nodes the one after which the machine is evenly used: (nodes, those that give one group more)."""
    best, chosen = inf, None
    for combination in combinations(nodes, size):
        share = count // size // group * group
        if sum(left[node] // group for node in combination) * group < count or any(left[node] < share for node in combination):
            continue
        after = {node: left[node] - (share if node in combination else 0) for node in nodes}
        balance, remainder = _best_remainder(combination, after, count - share * size, group)
        if balance < best:
            best, chosen = balance, (combination, remainder)
        if best == 0:
            break
    return chosen


def _best_remainder(
    combination: Sequence[int], after: dict[int, int], remainder: int, group: int
) -> tuple[float, tuple[int, ...]]:
    """Who gives what could not be shared out evenly: (imbalance afterwards, nodes)."""
    if remainder == 0:
        return _deviation(after), ()
    best: tuple[float, tuple[int, ...]] = (inf, ())
    able = [node for node in combination if after[node] >= group]
    for size in range(len(able), 0, -1):
        for subset in combinations(able, size):
            if sum(after[node] // group for node in subset) * group < remainder:
                continue
            rest, missing = dict(after), remainder
            while missing > 0:
                for node in subset:
                    if missing > 0 and rest[node] >= group:
                        rest[node] -= group
                        missing -= group
            if (balance := _deviation(rest)) < best[0]:
                best = (balance, subset)
    return best


def _deviation(values: dict[int, int]) -> float:
    """Rounded, so that equal loads compare as equal."""
    mean = round(sum(values.values()) / len(values), 3)
    return round(sqrt(sum((value - mean) ** 2 for value in values.values()) / len(values)), 3)

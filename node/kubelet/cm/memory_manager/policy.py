"""The static policy: from which NUMA nodes a container's memory comes. Changes a :class:`State`, does no I/O.

Called by ``manager``. A node serves either containers that need no other node, or those of one group of nodes: mixed, none of
them could be held to what it was promised. Rules and messages are those of upstream's static policy.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from itertools import combinations
from typing import Any

from apimachinery import quantity
from apimachinery.meta import uid_of
from apimachinery.objects import pods
from apimachinery.objects.requests import MEMORY, amount
from node.kubelet.cm.interface import Affinity, Container, Hints, Pod, TopologyHint
from node.kubelet.cm.memory_manager.state import Block, Machine, NodeState, State, Table
from node.kubelet.cm.requests import is_hugepage, is_ordinary_init, pinned_memory, pod_pinned_memory
from node.kubelet.cm.topology import Topology
from node.kubelet.runtime.resources import HUGEPAGES, page_name

NONE, STATIC = "None", "Static"
Nodes = frozenset[int]
Reserved = Mapping[int, Mapping[str, int]]
"""Bytes that are kept for the system, by node and kind."""


def reservations(topology: Topology, configured: Iterable[Mapping[str, Any]], kept: Mapping[str, int]) -> Reserved:
    """``reservedMemory``, which must add up to what the node keeps (``kept``: system, Kubernetes and hard eviction together).
    Raises ValueError."""
    found: dict[int, dict[str, int]] = {node: {} for node in topology.nodes}
    total: dict[str, int] = {}
    for each in configured:
        node = each["numaNode"]
        if node not in found:
            raise ValueError(
                f"the reserved memory configuration references a NUMA node {node} that does not exist on this machine"
            )
        for name, text in each["limits"].items():
            found[node][name] = amount(name, text)
            total[name] = total.get(name, 0) + found[node][name]
    for name in sorted({*total, *(name for name in kept if name == MEMORY or is_hugepage(name))}):
        if total.get(name, 0) != kept.get(name, 0):
            given, wanted = (str(quantity.of(each.get(name, 0), "BinarySI")) for each in (total, kept))
            raise ValueError(
                f'the total amount "{given}" of type "{name}" is not equal to the value "{wanted}" determined by Node '
                "Allocatable feature: reservedMemory must add up to systemReserved, kubeReserved and evictionHard"
            )
    if total.get(MEMORY, 0) <= 0:
        raise ValueError("[memorymanager] you should specify the system reserved memory")
    return found


class StaticPolicy:
    """One per kubelet with that policy."""

    def __init__(self, topology: Topology, reserved: Reserved, affinity: Affinity, state: State) -> None:
        self.state = state
        self._empty = _machine(topology, reserved)
        self._affinity = affinity
        self._reusable: tuple[str, dict[tuple[Nodes, str], int]] = ("", {})  # of the pod that is being taken

    # The state

    def start(self) -> None:
        """Check what was kept, or begin anew. Raises ValueError."""
        state = self.state
        if not state.machine:
            if state.given:
                raise ValueError("[memorymanager] machine state can not be empty when it has memory assignments")
            state.machine = deepcopy(self._empty)
            return
        expected = deepcopy(self._empty)
        for uid, pod in state.given.items():
            for name, blocks in pod.items():
                for block in blocks:
                    self._check(uid, name, block, expected)
                    _take(expected, block.nodes, block.type, block.size)
        if not _alike(state.machine, expected):
            raise ValueError("[memorymanager] the expected machine state is different from the real one")

    def _check(self, uid: str, name: str, block: Block, machine: Machine) -> None:
        who = f"[memorymanager] (pod: {uid}, container: {name}) the memory assignment uses"
        if not set(block.nodes) <= machine.keys():
            raise ValueError(f"{who} the NUMA that does not exist")
        if any(block.type not in machine[node].memory for node in block.nodes):
            raise ValueError(f"{who} memory resource that does not exist")

    # Giving and taking

    def allocate(self, pod: Pod, container: Container) -> bool:
        """Give the container its memory, if it is to have some of its own; whether the state changed. Raises ValueError."""
        requested, uid, name = pinned_memory(pod, container), uid_of(pod), str(container["name"])
        if not requested:
            return False
        held = self.state.of(uid, name)
        if held is not None:
            self._reuse(pod, name, held)
            return False
        nodes = self._choose(pod, name, requested)
        machine, blocks = self.state.machine, []
        for kind, size in requested.items():
            blocks.append(Block(sorted(nodes), kind, size))
            _take(machine, sorted(nodes), kind, max(0, size - self._left(uid, nodes, kind)))
        self._reuse(pod, name, blocks)
        self._shrink_init(pod, name, blocks)
        self.state.given.setdefault(uid, {})[name] = blocks
        return True

    def release(self, uid: str) -> bool:
        """Take everything back that the pod was given; whether the state changed."""
        given = self.state.given.pop(uid, None)
        self._reusable = ("", {}) if self._reusable[0] == uid else self._reusable
        for block in (block for blocks in (given or {}).values() for block in blocks):
            _give_back(self.state.machine, block)
        return given is not None

    def nodes_of(self, uid: str, container: str) -> Nodes:
        """The NUMA nodes that a container's memory is to come from; empty for any."""
        return frozenset(node for block in self.state.of(uid, container) or () for node in block.nodes)

    def _choose(self, pod: Pod, name: str, requested: Mapping[str, int]) -> Nodes:
        told = self._affinity.affinity(uid_of(pod), name)
        best = told
        if told.affinity is None:
            listed = self._places(pod, requested)
            if not listed:
                raise ValueError(
                    "[memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available"
                )
            best = _best(listed)
            if told.preferred and not best.preferred:
                raise ValueError("[memorymanager] failed to find the default preferred hint")
        assert best.affinity is not None
        if not self._suffices(best.affinity, requested):
            wider = [hint for hint in self._places(pod, requested) if hint.affinity and best.affinity <= hint.affinity]
            if not wider:
                raise ValueError("[memorymanager] failed to find NUMA nodes to extend the current topology hint")
            best, before = _best(wider), best
            if before.preferred and not best.preferred:
                raise ValueError("[memorymanager] failed to find the extended preferred hint")
        assert best.affinity is not None
        if len(best.affinity) > 1 and not self._may_group(best.affinity):
            raise ValueError("[memorymanager] preferred hint violates NUMA node allocation")
        return best.affinity

    def _suffices(self, nodes: Nodes, requested: Mapping[str, int]) -> bool:
        return all(self._sum(nodes, kind, "free") >= size for kind, size in requested.items())

    def _sum(self, nodes: Iterable[int], kind: str, column: str) -> int:
        tables = (self.state.machine[node].memory.get(kind, Table()) for node in nodes if node in self.state.machine)
        return sum(int(getattr(table, column)) for table in tables)

    def _may_group(self, nodes: Nodes) -> bool:
        """Whether those nodes can serve together: none of them serves alone, or in another group."""
        used = (self.state.machine[node] for node in nodes if self.state.machine[node].assignments)
        return all(len(each.cells) > 1 and set(each.cells) == nodes for each in used)

    # What init containers had, goes to those who come after them

    def _left(self, uid: str, nodes: Nodes, kind: str) -> int:
        return self._reusable[1].get((nodes, kind), 0) if self._reusable[0] == uid else 0

    def _reuse(self, pod: Pod, name: str, blocks: Sequence[Block]) -> None:
        uid = uid_of(pod)
        left = self._reusable[1] if self._reusable[0] == uid else {}
        for block in blocks:
            key = (frozenset(block.nodes), block.type)
            before = left.get(key, 0)
            left[key] = max(before, block.size) if is_ordinary_init(pod, name) else max(0, before - block.size)
        self._reusable = (uid, left)

    def _shrink_init(self, pod: Pod, name: str, blocks: Sequence[Block]) -> None:
        """What is used again is counted where it is used now."""
        for block in blocks:
            size = block.size
            for each in pods.spec_of(pod).get("initContainers") or ():
                if each["name"] == name or size == 0:
                    break
                if pods.is_sidecar(each):
                    continue
                for held in self.state.of(uid_of(pod), str(each["name"])) or ():
                    if held.type == block.type and set(held.nodes) == set(block.nodes):
                        again = min(size, held.size)
                        held.size -= again
                        size -= again

    # Hints

    def hints(self, pod: Pod, container: Container) -> Hints:
        """For the topology manager."""
        requested = pinned_memory(pod, container)
        held = self.state.of(uid_of(pod), str(container["name"]))
        if held is not None:
            return _where(held, requested)
        return self._by_kind(pod, requested)

    def pod_hints(self, pod: Pod) -> Hints:
        """For the topology manager with the scope ``pod``."""
        requested = pod_pinned_memory(pod)
        if not requested:
            return {}
        for container in (*(pods.spec_of(pod).get("initContainers") or ()), *pods.containers(pod)):
            held = self.state.of(uid_of(pod), str(container["name"]))
            if held is not None:
                return _where(held, requested)
        return self._by_kind(pod, requested)

    def _by_kind(self, pod: Pod, requested: Mapping[str, int]) -> Hints:
        """All kinds of memory of a container come from the same nodes."""
        places = self._places(pod, requested)
        return dict.fromkeys(requested, places) if places else {}

    def _places(self, pod: Pod, requested: Mapping[str, int]) -> list[TopologyHint]:
        """Every set of nodes that has enough and may serve together."""
        machine, least = self.state.machine, len(self.state.machine)
        found: list[Nodes] = []
        if not requested:
            return []
        for size in range(1, len(machine) + 1):
            for chosen in combinations(sorted(machine), size):
                nodes = frozenset(chosen)
                if any(self._sum(nodes, kind, "allocatable") < number for kind, number in requested.items()):
                    continue
                least = min(least, size)
                if not (self._may_group(nodes) if size > 1 else len(machine[chosen[0]].cells) == 1):
                    continue
                left = {kind: self._sum(nodes, kind, "free") + self._left(uid_of(pod), nodes, kind) for kind in requested}
                if all(left[kind] >= number for kind, number in requested.items()):
                    found.append(nodes)
        return [TopologyHint(nodes, len(nodes) == least) for nodes in found]


def _machine(topology: Topology, reserved: Reserved) -> Machine:
    """With nothing given to anybody."""
    made: Machine = {}
    for node, memory in topology.nodes.items():
        tables: dict[str, Table] = {}
        huge = 0
        for size, pages in memory.hugepages.items():
            name, total = f"{HUGEPAGES}{page_name(size * 1024)}", size * 1024 * pages
            tables[name] = _table(total, total, reserved.get(node, {}).get(name, 0))
            huge += total
        tables[MEMORY] = _table(memory.size, memory.size - huge, reserved.get(node, {}).get(MEMORY, 0))
        made[node] = NodeState([node], 0, tables)
    return made


def _table(total: int, usable: int, reserved: int) -> Table:
    return Table(total, reserved, usable - reserved, 0, usable - reserved)


def _take(machine: Machine, nodes: Sequence[int], kind: str, size: int) -> None:
    """Node after node gives what it has; all of them are a group from now on."""
    for node in nodes:
        machine[node].assignments += 1
        machine[node].cells = list(nodes)
        table = machine[node].memory.get(kind)
        if table is not None:
            part = max(0, min(size, table.free))
            table.free -= part
            table.reserved += part
            size -= part


def _give_back(machine: Machine, block: Block) -> None:
    size = block.size
    for node in block.nodes:
        machine[node].assignments -= 1
        if machine[node].assignments == 0:
            machine[node].cells = [node]
        table = machine[node].memory.get(block.type)
        if table is not None:
            part = min(size, table.reserved)
            table.reserved -= part
            table.free += part
            size -= part


def _alike(kept: Machine, expected: Machine) -> bool:
    """Whether the machine is still the one, and what is given adds up; in a group it may lie on another node."""
    if kept.keys() != expected.keys():
        return False
    for node, one in kept.items():
        other = expected[node]
        if (one.assignments, sorted(one.cells), one.memory.keys()) != (
            other.assignments,
            sorted(other.cells),
            other.memory.keys(),
        ):
            return False
        for name, table in one.memory.items():
            same = other.memory[name]
            if (table.total, table.system_reserved, table.allocatable) != (same.total, same.system_reserved, same.allocatable):
                return False
            for column in ("free", "reserved"):
                sums = [sum(getattr(each[cell].memory[name], column) for cell in one.cells) for each in (kept, expected)]
                if sums[0] != sums[1]:
                    return False
    return True


def _best(hints: Sequence[TopologyHint]) -> TopologyHint:
    """Preferred ones first, then few nodes, then low ones."""
    return min(
        hints, key=lambda hint: (not hint.preferred, len(hint.affinity or ()), sum(1 << node for node in hint.affinity or ()))
    )


def _where(held: Sequence[Block], requested: Mapping[str, int]) -> Hints:
    """The hints for memory that was given already: where it is. None at all where it is not what is asked for."""
    if {block.type: block.size for block in held} != dict(requested):
        return {}
    return {block.type: [TopologyHint(frozenset(block.nodes), True)] for block in held}

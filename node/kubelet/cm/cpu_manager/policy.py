"""The static policy: which CPUs are reserved, which shared, and who owns the others. Changes a :class:`State`, does no I/O.

Called by ``manager``. Rules and messages are those of upstream's static policy.
"""

from collections.abc import Iterable, Sequence
from itertools import combinations

from apimachinery.meta import uid_of
from apimachinery.objects import pods
from apimachinery.objects.requests import CPU
from node.kubelet.cm import cpuset
from node.kubelet.cm.cpu_manager.assignment import NotEnoughCpusError, distributed, packed
from node.kubelet.cm.cpu_manager.options import Options
from node.kubelet.cm.cpu_manager.state import State
from node.kubelet.cm.cpuset import CpuSet
from node.kubelet.cm.interface import AdmissionError, Affinity, Container, Hints, Pod, TopologyHint
from node.kubelet.cm.requests import exclusive_cpus, is_ordinary_init, pod_exclusive_cpus
from node.kubelet.cm.topology import CORE, NODE, SOCKET, UNCORE, Topology

NONE, STATIC = "none", "static"
SMT_REASON = "SMTAlignmentError"
_NOTHING: CpuSet = frozenset()


class StateError(ValueError):
    """What was kept does not go with the machine or the configuration as they are."""


class StaticPolicy:
    """One per kubelet with that policy."""

    def __init__(
        self, topology: Topology, options: Options, affinity: Affinity, state: State, count: int, reserved: CpuSet = _NOTHING
    ) -> None:
        """``count``: how many CPUs are reserved; ``reserved``: which, or none to have the first cores. Raises ValueError."""
        self.topology, self.options, self.state = topology, options, state
        self._affinity = affinity
        self._reusable: tuple[str, CpuSet] = ("", _NOTHING)  # of the pod that is being taken
        if not reserved:
            try:
                reserved = self._take(topology.all, count)
            except NotEnoughCpusError:
                reserved = _NOTHING
        if len(reserved) != count or not reserved <= topology.all:
            raise ValueError(
                f"[cpumanager] unable to reserve the required amount of CPUs (size of {cpuset.show(reserved)} did not "
                f"equal {count})"
            )
        self.reserved = reserved
        self._reserved_cores = topology.inside(CORE, topology.ids(CORE, reserved))

    # The state

    def start(self) -> None:
        """Check what was kept, or begin anew. Raises StateError."""
        state, every = self.state, self.topology.all
        if self.options.strict:
            every -= self.reserved
        if not state.shared:
            if state.owned:
                raise StateError("default cpuset cannot be empty")
            state.shared = every
            return
        self._check_reserved(state.shared)
        for uid, pod in state.owned.items():
            for name, cpus in pod.items():
                if cpus & state.shared:
                    raise StateError(
                        f'pod: {uid}, container: {name} cpuset: "{cpuset.show(cpus)}" overlaps with default cpuset '
                        f'"{cpuset.show(state.shared)}"'
                    )
        if (known := state.shared | state.exclusive()) != every:
            raise StateError(
                f'current set of available CPUs "{cpuset.show(every)}" doesn\'t match with CPUs in state "{cpuset.show(known)}"'
            )

    def _check_reserved(self, shared: CpuSet) -> None:
        if self.options.strict:
            if both := self.reserved & shared:
                raise StateError(
                    f'some of strictly reserved cpus: "{cpuset.show(both)}" are present in defaultCpuSet: "{cpuset.show(shared)}"'
                )
        elif not self.reserved <= shared:
            raise StateError(
                f'not all reserved cpus: "{cpuset.show(self.reserved)}" are present in defaultCpuSet: "{cpuset.show(shared)}"'
            )

    @property
    def allocatable(self) -> CpuSet:
        """CPUs that somebody may come to own."""
        return self.topology.all - self.reserved

    @property
    def available(self) -> CpuSet:
        """Those of them that nobody owns."""
        return self.state.shared - self.reserved

    # Giving and taking

    def allocate(self, pod: Pod, container: Container) -> bool:
        """Give the container its CPUs, if it is to own some; whether the state changed. Raises AdmissionError, ValueError."""
        count, uid, name = exclusive_cpus(pod, container), uid_of(pod), str(container["name"])
        if not count:
            return False
        held = self.state.of(uid, name)
        if held is None:
            self._check_cores(count)
        reusable = self._reusable[1] if self._reusable[0] == uid else _NOTHING
        cpus = held if held is not None else self._choose(count, self._affinity.affinity(uid, name).affinity, reusable)
        if is_ordinary_init(pod, name):
            self._reusable = (uid, reusable | cpus)
        else:
            self._reusable = (uid, reusable - cpus)
        if held is not None:
            return False
        self.state.owned.setdefault(uid, {})[name] = cpus
        self.state.shared -= cpus
        return True

    def release(self, uid: str) -> bool:
        """Take everything back that the pod owns; whether the state changed."""
        owned = self.state.owned.pop(uid, None)
        self._reusable = ("", _NOTHING) if self._reusable[0] == uid else self._reusable
        if owned is None:
            return False
        self.state.shared |= _NOTHING.union(*owned.values())
        return True

    def _check_cores(self, count: int) -> None:
        if not self.options.full_cores:
            return
        per_core = self.topology.cpus_per_core
        if count % per_core:
            text = f"SMT Alignment Error: requested {count} cpus not multiple cpus per core = {per_core}"
            raise AdmissionError(SMT_REASON, text)
        free = len(self.state.shared - self._reserved_cores)
        if count > free:
            raise AdmissionError(
                SMT_REASON,
                f"SMT Alignment Error: not enough free physical CPUs: available physical CPUs = {free}, "
                f"requested CPUs = {count}, CPUs per core = {per_core}",
            )

    def _choose(self, count: int, nodes: frozenset[int] | None, reusable: CpuSet) -> CpuSet:
        free = self.available | reusable
        chosen = _NOTHING
        if nodes is not None:
            near = self._near(nodes) & free
            chosen = self._take(near, min(count, len(near)))
        return chosen | self._take(free - chosen, count - len(chosen))

    def _near(self, nodes: Iterable[int]) -> CpuSet:
        inside = self.topology.inside(NODE, nodes)
        return self.topology.inside(SOCKET, self.topology.ids(SOCKET, inside)) if self.options.by_socket else inside

    def _take(self, free: CpuSet, count: int) -> CpuSet:
        options = self.options
        if options.across_numa:
            group = self.topology.cpus_per_core if options.full_cores else 1
            return distributed(self.topology, free, count, group, spread=options.across_cores)
        return packed(self.topology, free, count, spread=options.across_cores, by_cache=options.by_cache)

    # Hints

    def hints(self, pod: Pod, container: Container) -> Hints:
        """For the topology manager."""
        count, uid = exclusive_cpus(pod, container), uid_of(pod)
        if not count:
            return {}
        held = self.state.of(uid, str(container["name"]))
        if held is not None:
            return {CPU: self._places(held, _NOTHING, count) if len(held) == count else []}
        reusable = self._reusable[1] if self._reusable[0] == uid else _NOTHING
        return {CPU: self._places(self.available, reusable, count)}

    def pod_hints(self, pod: Pod) -> Hints:
        """For the topology manager with the scope ``pod``."""
        count, uid = pod_exclusive_cpus(pod), uid_of(pod)
        if not count:
            return {}
        held = _NOTHING
        for container in (*(pods.spec_of(pod).get("initContainers") or ()), *pods.containers(pod)):
            own = self.state.of(uid, str(container["name"]))
            if own is None:
                continue
            if len(own) != exclusive_cpus(pod, container):
                return {CPU: []}
            held |= own
        if len(held) == count:
            return {CPU: self._places(held, _NOTHING, count)}
        reusable = self._reusable[1] if self._reusable[0] == uid else _NOTHING
        return {CPU: self._places(self.available, reusable | held, count)}

    def _places(self, free: CpuSet, reusable: CpuSet, count: int) -> Sequence[TopologyHint]:
        """Every set of NUMA nodes that has enough free CPUs and holds all that is to be used again."""
        topology, nodes = self.topology, sorted(self.topology.ids(NODE))
        in_use = topology.ids(NODE, reusable)
        found, least = [], len(nodes)
        sizes = {node: len(topology.inside(NODE, [node])) for node in nodes}
        free_in = {node: len(topology.inside(NODE, [node], free)) for node in nodes}
        for size in range(1, len(nodes) + 1):
            for chosen in combinations(nodes, size):
                if sum(sizes[node] for node in chosen) >= count:
                    least = min(least, size)
                if in_use <= set(chosen) and len(reusable) + sum(free_in[node] for node in chosen) >= count:
                    found.append(frozenset(chosen))
        return [TopologyHint(each, self._is_best(each, least)) for each in found]

    def _is_best(self, nodes: frozenset[int], least: int) -> bool:
        if len(nodes) == least:
            return True
        per_socket = len(self.topology.ids(NODE)) // self.topology.sockets
        if not self.options.by_socket or not per_socket:
            return False
        return len(self.topology.ids(SOCKET, self.topology.inside(NODE, nodes))) == -(-least // per_socket)

    def on_one_cache(self, cpus: CpuSet) -> bool:
        """Whether they share a last-level cache."""
        return len(self.topology.ids(UNCORE, cpus)) == 1

"""Where the CPUs and the memory of a machine are. :func:`collect` reads ``/sys`` once, at start; :func:`parse` is pure.

Used by the CPU manager (who shares what with whom), the memory manager (how much is where) and the topology manager.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from node.kubelet.cm import cpuset
from node.kubelet.cm.cpuset import CpuSet

SYS = Path("/sys")
_CPU, _NODE = "devices/system/cpu", "devices/system/node"
_CPU_FILES = ("topology/physical_package_id", "topology/thread_siblings_list", "cache/index3/id", "cache/index3/shared_cpu_list")


@dataclass(frozen=True, slots=True)
class Cpu:
    """One logical CPU: ids of its NUMA node, its socket, its core (the lowest CPU on it) and its last-level cache."""

    node: int
    socket: int
    core: int
    uncore: int


Level = Callable[[Cpu], int]


def NODE(cpu: Cpu) -> int:  # noqa: N802 - a constant to its users
    return cpu.node


def SOCKET(cpu: Cpu) -> int:  # noqa: N802
    return cpu.socket


def CORE(cpu: Cpu) -> int:  # noqa: N802
    return cpu.core


def UNCORE(cpu: Cpu) -> int:  # noqa: N802
    return cpu.uncore


@dataclass(frozen=True, slots=True)
class Memory:
    """What one NUMA node has. ``hugepages``: number of pages by their size in KiB. ``distances``: to every node, by its id's
    place."""

    size: int
    hugepages: Mapping[int, int] = field(default_factory=dict)
    distances: tuple[int, ...] = ()


@dataclass(frozen=True)
class Topology:
    """A machine. ``cpus`` are those that are online."""

    cpus: Mapping[int, Cpu]
    nodes: Mapping[int, Memory]

    @cached_property
    def all(self) -> CpuSet:
        return frozenset(self.cpus)

    @cached_property
    def sockets(self) -> int:
        return len(self.ids(SOCKET))

    @cached_property
    def cpus_per_core(self) -> int:
        return len(self.cpus) // len(self.ids(CORE)) if self.cpus else 0

    def ids(self, level: Level, among: Iterable[int] | None = None) -> set[int]:
        """Ids of the nodes, sockets, cores... that have one of those CPUs."""
        return {level(self.cpus[cpu]) for cpu in (self.cpus if among is None else among)}

    def inside(self, level: Level, ids: Iterable[int], among: Iterable[int] | None = None) -> CpuSet:
        """The CPUs of those nodes, sockets, cores..."""
        wanted = set(ids)
        return frozenset(cpu for cpu in (self.cpus if among is None else among) if level(self.cpus[cpu]) in wanted)


def read(root: Path = SYS) -> Topology:
    """This machine. Raises ValueError where ``/sys`` says nothing."""
    return parse(collect(root))


def collect(root: Path = SYS) -> dict[str, str]:
    """The files that :func:`parse` wants, by their path below ``root``."""
    found: dict[str, str] = {}

    def take(path: str) -> None:
        try:
            found[path] = (root / path).read_text().strip()
        except OSError:
            return  # not every machine has each of them

    take(f"{_CPU}/online")
    for cpu in cpuset.parse(found.get(f"{_CPU}/online", "")):
        for name in _CPU_FILES:
            take(f"{_CPU}/cpu{cpu}/{name}")
    take(f"{_NODE}/online")
    for node in cpuset.parse(found.get(f"{_NODE}/online", "")):
        for name in ("cpulist", "distance", "meminfo"):
            take(f"{_NODE}/node{node}/{name}")
        for pages in sorted((root / _NODE / f"node{node}" / "hugepages").glob("hugepages-*kB/nr_hugepages")):
            take(str(pages.relative_to(root)))
    return found


def parse(files: Mapping[str, str]) -> Topology:
    """Raises ValueError where the CPUs are not listed. A machine without NUMA is one node."""
    online = cpuset.parse(files.get(f"{_CPU}/online", ""))
    if not online:
        raise ValueError(f"cannot tell the CPUs of this machine: /sys/{_CPU}/online is missing or empty")
    nodes = sorted(cpuset.parse(files.get(f"{_NODE}/online", "0")))
    node_of = {cpu: node for node in nodes for cpu in cpuset.parse(files.get(f"{_NODE}/node{node}/cpulist", ""))}
    cpus = {cpu: _cpu(files, cpu, node_of.get(cpu, nodes[0]), online) for cpu in sorted(online)}
    return Topology(cpus, {node: _memory(files, node) for node in nodes})


def _cpu(files: Mapping[str, str], cpu: int, node: int, online: CpuSet) -> Cpu:
    def text(name: str) -> str:
        return files.get(f"{_CPU}/cpu{cpu}/{name}", "")

    socket = max(0, int(text("topology/physical_package_id") or 0))  # -1 where the firmware does not say
    siblings = cpuset.parse(text("topology/thread_siblings_list")) & online
    if text("cache/index3/id"):
        uncore = int(text("cache/index3/id"))
    else:
        uncore = min(cpuset.parse(text("cache/index3/shared_cpu_list")) & online, default=socket)
    return Cpu(node, socket, min(siblings, default=cpu), uncore)


def _memory(files: Mapping[str, str], node: int) -> Memory:
    size = 0
    for line in files.get(f"{_NODE}/node{node}/meminfo", "").splitlines():
        words = line.split()  # Node 0 MemTotal:       65676528 kB
        if len(words) >= 4 and words[2] == "MemTotal:":
            size = int(words[3]) * 1024
    pages = {}
    start, end = f"{_NODE}/node{node}/hugepages/hugepages-", "kB/nr_hugepages"
    for path, text in files.items():
        if path.startswith(start) and path.endswith(end):
            pages[int(path.removeprefix(start).removesuffix(end))] = int(text or 0)
    distances = tuple(int(word) for word in files.get(f"{_NODE}/node{node}/distance", "").split())
    return Memory(size, dict(sorted(pages.items())), distances)

"""What ``/sys`` shows of machines with several sockets and NUMA nodes, by their shape; numbers are given out as real ones do."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from node.kubelet.cm import cpuset
from node.kubelet.cm.topology import Topology, parse

CPU, NODE = "devices/system/cpu", "devices/system/node"


@dataclass(frozen=True)
class Shape:
    """``interleaved``: core after core goes to the next node (as Dell numbers them); else node after node is filled (as HPE and
    AMD do). Second threads are always numbered after all first ones."""

    sockets: int = 1
    nodes_per_socket: int = 1
    cores_per_node: int = 2
    threads: int = 1
    cores_per_cache: int = 0
    interleaved: bool = False
    memory: int = 16 << 30
    hugepages: Mapping[int, int] = field(default_factory=lambda: {2048: 0, 1048576: 0})

    @property
    def nodes(self) -> int:
        return self.sockets * self.nodes_per_socket

    def files(self) -> dict[str, str]:
        """By their path below ``/sys``."""
        cores = self.nodes * self.cores_per_node
        found = {f"{CPU}/online": f"0-{cores * self.threads - 1}", f"{NODE}/online": cpuset.show(range(self.nodes))}
        members: dict[int, list[int]] = {node: [] for node in range(self.nodes)}
        caches: dict[int, list[int]] = {}
        for core in range(cores):
            node = core % self.nodes if self.interleaved else core // self.cores_per_node
            place = core // self.nodes if self.interleaved else core % self.cores_per_node
            per_cache = self.cores_per_cache or self.cores_per_node
            cache = node * -(-self.cores_per_node // per_cache) + place // per_cache
            siblings = [core + thread * cores for thread in range(self.threads)]
            members[node] += siblings
            caches.setdefault(cache, []).extend(siblings)
            for cpu in siblings:
                at = f"{CPU}/cpu{cpu}"
                found[f"{at}/topology/physical_package_id"] = str(node // self.nodes_per_socket)
                found[f"{at}/topology/thread_siblings_list"] = cpuset.show(siblings)
                found[f"{at}/cache/index3/id"] = str(cache)
        for cache, cpus in caches.items():
            for cpu in cpus:
                found[f"{CPU}/cpu{cpu}/cache/index3/shared_cpu_list"] = cpuset.show(cpus)
                assert found[f"{CPU}/cpu{cpu}/cache/index3/id"] == str(cache)
        for node, cpus in members.items():
            at = f"{NODE}/node{node}"
            found[f"{at}/cpulist"] = cpuset.show(cpus)
            found[f"{at}/distance"] = " ".join(str(self._distance(node, other)) for other in range(self.nodes))
            found[f"{at}/meminfo"] = f"Node {node} MemTotal:       {self.memory // 1024} kB\nNode {node} MemFree:  1 kB"
            for size, pages in self.hugepages.items():
                found[f"{at}/hugepages/hugepages-{size}kB/nr_hugepages"] = str(pages)
        return found

    def _distance(self, one: int, other: int) -> int:
        if one == other:
            return 10
        return 12 if one // self.nodes_per_socket == other // self.nodes_per_socket else 32

    def topology(self) -> Topology:
        return parse(self.files())

    def write(self, root: Path) -> None:
        """Lay the tree out below ``root``."""
        for path, text in self.files().items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(f"{text}\n")


XEON = Shape(sockets=2, cores_per_node=8, threads=2, interleaved=True)
"""Two sockets, one node each, 16 threads each: evens on node 0."""
EPYC = Shape(sockets=2, nodes_per_socket=4, cores_per_node=16, threads=2, cores_per_cache=8)
"""Two sockets of four nodes (NPS4); every eight cores share a cache. 256 threads."""
DESKTOP = Shape(cores_per_node=4, threads=2)
"""One socket: 0 and 4 are one core."""
SMALL_NUMA = Shape(sockets=2, cores_per_node=3, threads=2)
"""Two sockets of three cores: CPUs 0-2 and 6-8, 3-5 and 9-11."""

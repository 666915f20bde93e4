"""CPU, memory, device and topology manager as one: what the rest of the kubelet knows of them. Made by ``assembly``.

``pod_sync`` calls :meth:`ContainerManager.admit` before a pod's first step and :meth:`ContainerManager.forget` after its last;
``runtime.containers`` asks :meth:`ContainerManager.pinning` for each container that it makes.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

from apimachinery.meta import uid_of
from apimachinery.objects.requests import CPU, amount
from component.clock import Clock
from component.errors import OperatorError
from cri.interface import RuntimeService
from node.kubelet.cm import cpuset
from node.kubelet.cm import topology as machines
from node.kubelet.cm.cpu_manager import options as cpu_options
from node.kubelet.cm.cpu_manager import policy as cpu_policy
from node.kubelet.cm.cpu_manager import state as cpu_state
from node.kubelet.cm.cpu_manager.manager import CpuManager
from node.kubelet.cm.device_manager.manager import DeviceManager
from node.kubelet.cm.interface import AdmissionError, Container, HintProvider, Pod
from node.kubelet.cm.memory_manager import policy as memory_policy
from node.kubelet.cm.memory_manager import state as memory_state
from node.kubelet.cm.memory_manager.manager import MemoryManager
from node.kubelet.cm.memory_manager.state import Block
from node.kubelet.cm.metrics import ResourceMetrics
from node.kubelet.cm.topology import Topology
from node.kubelet.cm.topology_manager import options as topology_options
from node.kubelet.cm.topology_manager import policy as topology_policy
from node.kubelet.cm.topology_manager.manager import TopologyManager
from node.kubelet.config import KubeletConfig
from node.kubelet.runtime.observed import ObservedPod
from node.kubelet.runtime.resources import Pinning


@dataclass(frozen=True, slots=True)
class Kept:
    """What was read at start: the machine, and what a predecessor had given away."""

    topology: Topology
    cpus: cpu_state.State
    memory: memory_state.State


def load(config: KubeletConfig, root: Path = machines.SYS) -> Kept:
    """Reads files: called in a thread. Raises OperatorError for what must be mended first."""
    try:
        topology = machines.read(root)
    except ValueError as error:
        given = (config.cpu_manager_policy, config.memory_manager_policy, config.topology_manager_policy)
        if given != (cpu_policy.NONE, memory_policy.NONE, topology_policy.NONE):
            raise OperatorError(str(error)) from None
        topology = Topology({}, {})
    try:
        cpus = cpu_state.load(config.root_dir / cpu_state.FILE, config.cpu_manager_policy)
    except (ValueError, OSError) as error:
        raise OperatorError(f"start cpu manager error: {error}") from None
    try:
        memory = memory_state.load(config.root_dir / memory_state.FILE, config.memory_manager_policy)
    except (ValueError, OSError) as error:
        raise OperatorError(f"start memory manager error: {error}") from None
    return Kept(topology, cpus, memory)


class ContainerManager:
    """One per kubelet."""

    def __init__(self, topology: TopologyManager, cpus: CpuManager, memory: MemoryManager, *, ration: bool = False) -> None:
        """``ration``: whether who owns CPUs is held to its CPU limit by quota all the same."""
        self.topology = topology
        self.cpus = cpus
        self.memory = memory
        self._ration = ration
        self._devices: DeviceManager | None = None
        self._tell_health = False
        topology.add(cpus)
        topology.add(memory)

    def add_devices(self, devices: DeviceManager, *, tell_health: bool = False) -> None:
        """``tell_health``: whether pods show how their devices are (the gate ResourceHealthStatus)."""
        self._devices, self._tell_health = devices, tell_health
        self.topology.add(devices)

    def add(self, provider: HintProvider) -> None:
        """Have another manager take part in admission."""
        self.topology.add(provider)

    async def admit(self, pod: Pod) -> tuple[str, str] | None:
        """Give the pod what its containers are to own; (reason, message) if it cannot be had."""
        refused = await self.topology.admit(pod)
        if refused is not None or self._devices is None:
            return refused
        try:
            await self._devices.prepare(pod)  # outside of the topology manager: a plugin may take its time
        except AdmissionError as error:
            self.topology.forget(uid_of(pod))
            return error.reason, str(error)
        return None

    def forget(self, uid: str) -> None:
        """Nothing of the pod runs any more."""
        self.topology.forget(uid)

    def sweep(self, known: Iterable[str]) -> None:
        """Forget all pods but those."""
        known = set(known)
        self.cpus.sweep(known)
        self.memory.sweep(known)
        if self._devices is not None:
            self._devices.collect(known)

    def health(self, uid: str, container: str) -> Sequence[Mapping[str, Any]]:
        """The ``allocatedResourcesStatus`` of a container."""
        return self._devices.health(uid, container) if self._devices is not None and self._tell_health else ()

    def pinning(self, pod: Pod, container: Container) -> Pinning:
        """Where that container is to run."""
        uid, name = uid_of(pod), str(container["name"])
        unlimited = self.cpus.owns_cpus(uid, name) and not self._ration
        cpus, nodes = self.cpus.cpus_for(uid, name), self.memory.nodes_of(uid, name)
        return Pinning(cpuset.show(cpus), cpuset.show(nodes), unlimited)

    def unlimited(self, pod: Pod) -> bool:
        """Whether a container of the pod owns CPUs, so that the pod as a whole is not held to a quota."""
        return not self._ration and self.cpus.owns_any(uid_of(pod))

    # what the pod resources API asks (``podresources.interface.ResourceSource``)

    def exclusive_cpus(self, uid: str, container: str) -> Collection[int]:
        return self.cpus.exclusive_to(uid, container)

    def allocatable_cpus(self) -> Collection[int]:
        return self.cpus.policy.allocatable if self.cpus.policy is not None else ()

    def memory_of(self, uid: str, container: str) -> Sequence[Block]:
        return self.memory.blocks_of(uid, container)

    def allocatable_memory(self) -> Sequence[Block]:
        machine = self.memory.policy.state.machine if self.memory.policy is not None else {}
        tables = [(node, kind, table) for node, state in machine.items() for kind, table in state.memory.items()]
        return [Block([node], kind, table.allocatable) for node, kind, table in tables if table.allocatable]

    async def run(self) -> None:
        """Keep containers where they belong until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.cpus.run(), name="cpu manager")
            group.create_task(self.memory.run(), name="memory manager")


def build(
    config: KubeletConfig,
    kept: Kept,
    runtime: RuntimeService,
    observed: Callable[[], Mapping[str, ObservedPod]],
    clock: Clock,
    metrics: ResourceMetrics,
    memory_kept: Mapping[str, int],
) -> ContainerManager:
    """``memory_kept``: bytes of memory, and of each size of huge pages, that are not for pods. Raises OperatorError where
    configuration, machine and what was kept do not go together."""
    try:
        options = topology_options.parse(config.topology_manager_policy_options)
        distances = {node: memory.distances for node, memory in kept.topology.nodes.items()}
        wanted, scope = config.topology_manager_policy, config.topology_manager_scope
        topology = TopologyManager(wanted, scope, options, kept.topology.nodes, distances, metrics)
        policy, memory = _cpu_policy(config, kept, topology), _memory_policy(config, kept, topology, memory_kept)
    except ValueError as error:
        raise OperatorError(str(error)) from None
    path = config.root_dir / cpu_state.FILE
    cpus = CpuManager(policy, path, runtime, observed, clock, config.cpu_manager_reconcile_period, metrics)
    cpus.started()
    memories = MemoryManager(memory, config.root_dir / memory_state.FILE, metrics)
    return ContainerManager(topology, cpus, memories, ration=not config.features.enabled("DisableCPUQuotaWithExclusiveCPUs"))


def _cpu_policy(config: KubeletConfig, kept: Kept, topology: TopologyManager) -> cpu_policy.StaticPolicy | None:
    if config.cpu_manager_policy == cpu_policy.NONE:
        return None
    milli = sum(amount(CPU, listed.get(CPU, "0")) for listed in config.reservations())
    if not milli:
        raise ValueError(
            "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be greater than zero: set "
            "systemReserved, kubeReserved or reservedSystemCPUs"
        )
    options = cpu_options.parse(config.cpu_manager_policy_options, config.features)
    cpu_options.fits(options, kept.topology, config.topology_manager_policy)
    named = cpuset.parse(config.reserved_system_cpus)
    made = cpu_policy.StaticPolicy(kept.topology, options, topology, kept.cpus, ceil(milli / 1000), named)
    try:
        made.start()
    except cpu_policy.StateError as error:
        path = config.root_dir / cpu_state.FILE
        raise ValueError(
            f'start cpu manager error: {error}; drain this node and delete the file "{path}" before the kubelet is started again'
        ) from None
    return made


def _memory_policy(
    config: KubeletConfig, kept: Kept, topology: TopologyManager, memory_kept: Mapping[str, int]
) -> memory_policy.StaticPolicy | None:
    if config.memory_manager_policy == memory_policy.NONE:
        return None
    reserved = memory_policy.reservations(kept.topology, config.reserved_memory, memory_kept)
    made = memory_policy.StaticPolicy(kept.topology, reserved, topology, kept.memory)
    try:
        made.start()
    except ValueError as error:
        path = config.root_dir / memory_state.FILE
        raise ValueError(
            f'start memory manager error: {error}; drain this node and delete the file "{path}" before the kubelet is started '
            "again"
        ) from None
    return made

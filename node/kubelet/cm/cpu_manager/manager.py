"""Gives whole CPUs to those who are to own them, and keeps everybody else's containers off these.

A ``HintProvider`` of the topology manager. ``runtime.containers`` asks :meth:`CpuManager.cpus_for` for each container that it
makes; :meth:`CpuManager.run` moves those that run whenever the shared CPUs have changed, and once per reconcile period.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from component import logs
from component.clock import Clock, timeout
from cri import errors
from cri.api import runtime_v1_pb2 as pb
from cri.interface import RuntimeService
from node.kubelet.cm import checkpoint, cpuset
from node.kubelet.cm.cpu_manager import state as states
from node.kubelet.cm.cpu_manager.policy import NONE, StaticPolicy
from node.kubelet.cm.cpuset import CpuSet
from node.kubelet.cm.interface import AdmissionError, Container, Hints, Pod
from node.kubelet.cm.metrics import CONTAINER, CPU_MANAGER, PHYSICAL_CPU, UNCORE_CACHE, ResourceMetrics
from node.kubelet.cm.requests import exclusive_cpus
from node.kubelet.cm.topology import NODE
from node.kubelet.runtime.observed import ObservedPod, State

_NOTHING: CpuSet = frozenset()
_log = logs.get(__name__)


class CpuManager:
    """One per kubelet; with the policy ``none`` it only keeps that in its state file."""

    def __init__(
        self,
        policy: StaticPolicy | None,
        path: Path,
        runtime: RuntimeService,
        observed: Callable[[], Mapping[str, ObservedPod]],
        clock: Clock,
        period: float,
        metrics: ResourceMetrics,
    ) -> None:
        """``observed``: what runs, by pod. ``policy`` is None for the policy ``none``."""
        self.policy = policy
        self._path = path
        self._runtime = runtime
        self._observed = observed
        self._clock = clock
        self._period = period
        self._metrics = metrics
        self._applied: dict[tuple[str, str], CpuSet] = {}
        self._changed = asyncio.Event()
        self._saving = asyncio.Lock()

    # For the topology manager

    def topology_hints(self, pod: Pod, container: Container) -> Hints:
        return self.policy.hints(pod, container) if self.policy else {}

    def pod_topology_hints(self, pod: Pod) -> Hints:
        return self.policy.pod_hints(pod) if self.policy else {}

    async def allocate(self, pod: Pod, container: Container) -> None:
        """What was given is on the disk before this returns. Raises AdmissionError, ValueError, OSError."""
        policy = self.policy
        if policy is None or not exclusive_cpus(pod, container):
            return
        self._metrics.pinning_requested(CPU_MANAGER)
        try:
            given = policy.allocate(pod, container)
        except (AdmissionError, ValueError):
            self._metrics.pinning_failed(CPU_MANAGER)
            if policy.options.full_cores:
                self._metrics.not_aligned(CONTAINER, PHYSICAL_CPU)
            raise
        if policy.options.full_cores:
            self._metrics.aligned(CONTAINER, PHYSICAL_CPU)
        if given:
            owned = policy.state.of(pod["metadata"]["uid"], str(container["name"])) or _NOTHING
            if policy.on_one_cache(owned):
                self._metrics.aligned(CONTAINER, UNCORE_CACHE)
            await self.save()
            self._tell()

    def forget(self, uid: str) -> None:
        """The others get its CPUs back within a moment."""
        self._applied = {key: cpus for key, cpus in self._applied.items() if key[0] != uid}
        if self.policy is not None and self.policy.release(uid):
            self._tell()

    # For those who make containers

    def cpus_for(self, uid: str, container: str) -> CpuSet:
        """Where that container is to run; empty for no restriction. It is taken for granted that it will be made so."""
        cpus = self._wanted(uid, container)
        if cpus:
            self._applied[uid, container] = cpus
        return cpus

    def owns_cpus(self, uid: str, container: str) -> bool:
        return self.policy is not None and self.policy.state.of(uid, container) is not None

    def owns_any(self, uid: str) -> bool:
        """Whether a container of that pod owns CPUs."""
        return self.policy is not None and uid in self.policy.state.owned

    def exclusive_to(self, uid: str, container: str) -> CpuSet:
        """The CPUs that this container owns."""
        return (self.policy.state.of(uid, container) if self.policy else None) or _NOTHING

    def _wanted(self, uid: str, container: str) -> CpuSet:
        if self.policy is None:
            return _NOTHING
        owned = self.policy.state.of(uid, container)
        return self.policy.state.shared if owned is None else owned

    # The loop

    def sweep(self, known: Iterable[str]) -> None:
        """Take back what pods own that this node does not know any more. Called once all pods are known for sure."""
        if self.policy is not None:
            for uid in self.policy.state.owned.keys() - set(known):
                self.forget(uid)

    async def run(self) -> None:
        """Keep everything where it belongs until cancelled. With the policy ``none`` there is nothing to do but to say so."""
        if self.policy is None:
            await self.save()
            return
        while True:
            self._changed.clear()
            try:
                await self.save()
                await self.reconcile()
            except OSError as error:
                _log.warning("Cannot keep the state of the CPU manager", file=str(self._path), err=error)
            with contextlib.suppress(TimeoutError):
                async with timeout(self._clock, self._period):
                    await self._changed.wait()

    async def reconcile(self) -> None:
        """Move what runs elsewhere than it should."""
        for uid, pod in list(self._observed().items()):
            for container in pod.running():
                wanted = self._wanted(uid, container.name)
                if not wanted or self._applied.get((uid, container.name)) == wanted:
                    continue
                try:
                    limits = pb.LinuxContainerResources(cpuset_cpus=cpuset.show(wanted))
                    await self._runtime.update_container_resources(container.id, limits)
                except errors.RuntimeServiceError as error:
                    if container.state is State.RUNNING and not isinstance(error, errors.NotFoundError):
                        _log.warning("Cannot move a container to its CPUs", container=container.name, uid=uid, err=error)
                    continue
                self._applied[uid, container.name] = wanted

    async def save(self) -> None:
        """Write the state file if it does not say what is true. Raises OSError."""
        async with self._saving:
            document = states.document(self.policy.state if self.policy else states.State(NONE))
            await asyncio.to_thread(_write_if_new, self._path, document)

    def _tell(self) -> None:
        assert self.policy is not None
        self._changed.set()
        exclusive = self.policy.state.exclusive()
        per_node = {node: len(self.policy.topology.inside(NODE, [node], exclusive)) for node in self.policy.topology.nodes}
        self._metrics.cpus(shared=len(self.policy.available), exclusive=len(exclusive), per_node=per_node)

    def started(self) -> None:
        """Show the figures once the state is there."""
        if self.policy is not None:
            self._tell()


def _write_if_new(path: Path, document: Mapping[str, object]) -> None:
    try:
        if checkpoint.read(path) == document:
            return
    except checkpoint.CheckpointError:
        pass  # it is replaced
    checkpoint.write(path, document)

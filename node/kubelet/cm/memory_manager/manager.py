"""Has the memory of guaranteed pods come from certain NUMA nodes. A ``HintProvider`` of the topology manager.

``container_manager`` asks :meth:`MemoryManager.nodes_of` for each container that is made; what runs is never moved.
"""

import asyncio
from collections.abc import Iterable
from pathlib import Path

from apimachinery.meta import uid_of
from component import logs
from node.kubelet.cm import checkpoint
from node.kubelet.cm.interface import Container, Hints, Pod
from node.kubelet.cm.memory_manager import state as states
from node.kubelet.cm.memory_manager.policy import NONE, Nodes, StaticPolicy
from node.kubelet.cm.memory_manager.state import Block
from node.kubelet.cm.metrics import MEMORY_MANAGER, ResourceMetrics
from node.kubelet.cm.requests import pinned_memory

_log = logs.get(__name__)


class MemoryManager:
    """One per kubelet; with the policy ``None`` it only keeps that in its state file."""

    def __init__(self, policy: StaticPolicy | None, path: Path, metrics: ResourceMetrics) -> None:
        self.policy = policy
        self._path = path
        self._metrics = metrics
        self._changed = asyncio.Event()
        self._saving = asyncio.Lock()

    def topology_hints(self, pod: Pod, container: Container) -> Hints:
        return self.policy.hints(pod, container) if self.policy else {}

    def pod_topology_hints(self, pod: Pod) -> Hints:
        return self.policy.pod_hints(pod) if self.policy else {}

    async def allocate(self, pod: Pod, container: Container) -> None:
        """What was given is on the disk before this returns. Raises ValueError, OSError."""
        if self.policy is None or not pinned_memory(pod, container):
            return
        self._metrics.pinning_requested(MEMORY_MANAGER)
        try:
            given = self.policy.allocate(pod, container)
        except ValueError:
            self._metrics.pinning_failed(MEMORY_MANAGER)
            _log.info("No memory for a container", uid=uid_of(pod), container=container["name"])
            raise
        if given:
            await self.save()

    def forget(self, uid: str) -> None:
        """Its memory is for others."""
        if self.policy is not None and self.policy.release(uid):
            self._changed.set()

    def nodes_of(self, uid: str, container: str) -> Nodes:
        """Where that container's memory is to come from; empty for anywhere."""
        return self.policy.nodes_of(uid, container) if self.policy else frozenset()

    def blocks_of(self, uid: str, container: str) -> list[Block]:
        """What that container was given."""
        return (self.policy.state.of(uid, container) if self.policy else None) or []

    def sweep(self, known: Iterable[str]) -> None:
        """Take back what pods have that this node does not know any more."""
        if self.policy is not None:
            for uid in self.policy.state.given.keys() - set(known):
                self.forget(uid)

    async def run(self) -> None:
        """Keep the state file true until cancelled."""
        while True:
            self._changed.clear()
            await self.save()
            await self._changed.wait()

    async def save(self) -> None:
        """Raises OSError."""
        async with self._saving:
            document = states.document(self.policy.state if self.policy else states.State(NONE))
            await asyncio.to_thread(checkpoint.write, self._path, document)

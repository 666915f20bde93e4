"""Lets a pod in if its resources can be allocated together, and has them allocated. ``pod_sync`` asks before a pod's first step.

With the policy ``none`` nothing is aligned, but the providers still allocate.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter

from apimachinery.meta import uid_of
from apimachinery.objects import pods
from component import logs
from node.kubelet.cm.interface import UNEXPECTED, AdmissionError, Container, HintProvider, Pod, TopologyHint
from node.kubelet.cm.metrics import CONTAINER, NUMA_NODE, POD, ResourceMetrics
from node.kubelet.cm.topology_manager import policy as policies
from node.kubelet.cm.topology_manager.hints import Distances, Numa
from node.kubelet.cm.topology_manager.options import Options

REASON = "TopologyAffinityError"
MESSAGE = "Resources cannot be allocated with Topology locality"
_log = logs.get(__name__)


class TopologyManager:
    """One per kubelet. Fulfils ``cm.interface.Affinity``."""

    def __init__(
        self,
        policy: str,
        scope: str,
        options: Options,
        nodes: Iterable[int],
        distances: Distances,
        metrics: ResourceMetrics,
        timer: Callable[[], float] = perf_counter,
    ) -> None:
        """Raises ValueError for a machine with more NUMA nodes than the options allow."""
        self.policy = policy
        self._pod_scope = scope == POD
        known = frozenset(nodes)
        if policy != policies.NONE and len(known) > options.max_nodes:
            raise ValueError(f"unsupported on machines with more than {options.max_nodes} NUMA Nodes")
        self._numa = Numa(known, distances if options.prefer_closest else {})
        self._metrics = metrics
        self._timer = timer
        self._providers: list[HintProvider] = []
        self._decided: dict[str, dict[str, TopologyHint]] = {}
        self._one_at_a_time = asyncio.Lock()

    def add(self, provider: HintProvider) -> None:
        """Have another manager take part; they allocate in the order in which they were added."""
        self._providers.append(provider)

    def affinity(self, uid: str, container: str) -> TopologyHint:
        return self._decided.get(uid, {}).get(container, TopologyHint())

    async def admit(self, pod: Pod) -> tuple[str, str] | None:
        """Allocate for every container of the pod; (reason, message) of the refusal, after which it holds nothing."""
        async with self._one_at_a_time:
            began = self._timer()
            self._metrics.admission_requested()
            try:
                await self._admit(pod)
            except AdmissionError as error:
                refused = (error.reason, str(error))
            except Exception as error:
                _log.warning("Cannot allocate for a pod", uid=uid_of(pod), err=error)
                refused = (UNEXPECTED, f"Allocate failed due to {error}, which is unexpected")
            else:
                return None
            finally:
                self._metrics.admission_took(self._timer() - began)
            self._metrics.admission_failed()
            self.forget(uid_of(pod))
            return refused

    def forget(self, uid: str) -> None:
        """Nothing of the pod runs any more."""
        self._decided.pop(uid, None)
        for provider in self._providers:
            provider.forget(uid)

    async def _admit(self, pod: Pod) -> None:
        containers = [*(pods.spec_of(pod).get("initContainers") or ()), *pods.containers(pod)]
        if self.policy == policies.NONE:
            await self._allocate(pod, containers)
        elif self._pod_scope:
            hint = self._decide(pod, None)
            self._decided[uid_of(pod)] = {str(each["name"]): hint for each in containers}
            await self._allocate(pod, containers)
            self._aligned(POD)
        else:
            for container in containers:
                self._decided.setdefault(uid_of(pod), {})[str(container["name"])] = self._decide(pod, container)
                await self._allocate(pod, [container])
                self._aligned(CONTAINER)

    def _decide(self, pod: Pod, container: Container | None) -> TopologyHint:
        if container is None:
            hints = [provider.pod_topology_hints(pod) for provider in self._providers]
        else:
            hints = [provider.topology_hints(pod, container) for provider in self._providers]
        best, admitted = policies.decide(self.policy, self._numa, hints)
        if not admitted:
            if self.policy == policies.SINGLE_NUMA_NODE:
                self._metrics.not_aligned(POD if container is None else CONTAINER, NUMA_NODE)
            raise AdmissionError(REASON, MESSAGE)
        return best

    async def _allocate(self, pod: Pod, containers: Sequence[Container]) -> None:
        for container in containers:
            for provider in self._providers:
                await provider.allocate(pod, container)

    def _aligned(self, scope: str) -> None:
        if self.policy == policies.SINGLE_NUMA_NODE:  # the only one that guarantees it
            self._metrics.aligned(scope, NUMA_NODE)

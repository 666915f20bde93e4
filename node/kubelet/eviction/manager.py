"""The eviction manager: looks every ten seconds, frees what the node itself can spare, and ends one pod at a time.

``kubelet.py`` keeps it running. Nodes show its conditions (``node_status``), and pods are refused under them (``admission``).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from apimachinery.meta import name_of, namespace_of, uid_of
from apimachinery.objects import pods
from component import logs
from component.clock import Clock
from component.metrics import Registry
from cri.errors import RuntimeServiceError
from node.kubelet.eviction import local_storage, ranking
from node.kubelet.eviction import thresholds as t
from node.kubelet.eviction.decide import Memory, decide, met
from node.kubelet.eviction.signals import Observations
from node.kubelet.eviction.thresholds import Threshold
from node.kubelet.pod_status import Failure
from node.kubelet.recorder import PodEvents, Sink, node_event

PERIOD = 10.0
_IMMEDIATELY = 1  # seconds; upstream's too: a container gets its SIGTERM, and no time
_CLEANUP_SECONDS = 30.0
_log = logs.get(__name__)

Pod = Mapping[str, Any]


class Node(Protocol):
    """What the manager sees of the node and does to it."""

    async def observe(self) -> Observations: ...

    def dedicated_image_fs(self) -> bool: ...

    def active_pods(self) -> Sequence[Pod]:
        """Pods that run or may run here."""
        ...

    async def usage(self, listed: Sequence[Pod]) -> ranking.Usage:
        """By uid. Raises RuntimeServiceError."""
        ...

    def end(self, pod: Pod, failure: Failure, grace: int) -> None: ...

    def gone(self, pod: Pod) -> bool:
        """Whether nothing of an evicted pod runs any more."""
        ...


class EvictionManager:
    """One per kubelet. ``conditions`` are the node conditions in force."""

    def __init__(
        self,
        node: Node,
        thresholds: Sequence[Threshold],
        clock: Clock,
        events: PodEvents,
        node_events: Sink,
        node_name: str,
        registry: Registry,
        *,
        transition: float = 300.0,
        max_grace: int = 0,
        local_limits: bool = True,
        reclaim: Sequence[Callable[[], Awaitable[None]]] = (),
    ) -> None:
        """``transition`` seconds keep a condition; ``max_grace`` bounds what a soft eviction leaves a pod; ``reclaim`` frees disk
        without ending anything."""
        self._node = node
        self._thresholds = thresholds
        self._clock = clock
        self._events = events
        self._node_events = node_events
        self._node_name = node_name
        self._transition = transition
        self._max_grace = max_grace
        self._local_limits = local_limits
        self._reclaim = reclaim
        self._memory = Memory()
        self._evictions = registry.counter("kubelet_evictions", "Pods ended for lack of something.", ("eviction_signal",))
        self.conditions: tuple[str, ...] = ()

    async def run(self) -> None:
        """Look until cancelled; after an eviction the pod's end is awaited, so that not two go where one would do."""
        while True:
            evicted: Sequence[Pod] = ()
            try:
                evicted = await self.synchronize()
            except RuntimeServiceError as error:
                _log.warning("Cannot look for pods to evict", err=error)
            if evicted:
                await self._await_end(evicted)
            else:
                await self._clock.sleep(PERIOD)

    async def _await_end(self, evicted: Sequence[Pod]) -> None:
        until = self._clock.monotonic() + _CLEANUP_SECONDS
        while self._clock.monotonic() < until and not all(self._node.gone(pod) for pod in evicted):
            await self._clock.sleep(1.0)

    async def synchronize(self) -> Sequence[Pod]:
        """One look; the pods that are being evicted because of it. Raises RuntimeServiceError."""
        active = self._node.active_pods()
        if evicted := await self._exceeding(active):
            return evicted
        if not self._thresholds:
            return ()
        seen = await self._node.observe()
        decision = decide(self._thresholds, seen, self._memory, self._clock.monotonic(), self._transition)
        self._memory = decision.memory
        self._tell(decision.conditions)
        if not decision.act:
            return ()
        threshold = decision.act[0]
        resource = t.RESOURCES[threshold.signal]
        _log.warning("The node lacks something", signal=threshold.signal, conditions=list(decision.conditions))
        self._note("Warning", "EvictionThresholdMet", f"Attempting to reclaim {resource}")
        if await self._freed(threshold):
            return ()
        return await self._evict_first(threshold, seen, active)

    async def _exceeding(self, active: Sequence[Pod]) -> list[Pod]:
        """Pods that wrote more than their own limits allow."""
        limited = [pod for pod in active if local_storage.is_limited(pod)] if self._local_limits else []
        if not limited:
            return []
        usage = await self._node.usage(limited)
        evicted = []
        for pod in limited:
            excess = local_storage.exceeded(pod, usage.get(uid_of(pod), ranking.PodUsed()))
            if excess is not None and not ranking.is_critical(pod):
                signal, message = excess
                self._evict(pod, message, _IMMEDIATELY, signal)
                evicted.append(pod)
        return evicted

    async def _freed(self, threshold: Threshold) -> bool:
        """Whether the node got over it without ending a pod: dead containers and unused images go first."""
        if t.CONDITIONS[threshold.signal] != "DiskPressure":
            return False
        for free in self._reclaim:
            await free()
        return not met([threshold], await self._node.observe(), with_reclaim=True)

    async def _evict_first(self, threshold: Threshold, seen: Observations, active: Sequence[Pod]) -> Sequence[Pod]:
        usage = await self._node.usage(active)
        ranked = ranking.rank(threshold.signal, active, usage, self._node.dedicated_image_fs())
        if not ranked:
            _log.warning("Nothing is left to evict", signal=threshold.signal)
            return ()
        pod = ranked[0]
        message = ranking.message(threshold, seen.get(threshold.signal), pod, usage.get(uid_of(pod), ranking.PodUsed()))
        own = int(pods.spec_of(pod).get("terminationGracePeriodSeconds") or 0)
        self._evict(pod, message, _IMMEDIATELY if threshold.hard else min(own, self._max_grace), threshold.signal)
        return (pod,)

    def _evict(self, pod: Pod, message: str, grace: int, signal: str) -> None:
        self._evictions.labels(signal).inc()
        self._events.warning(pod, ranking.REASON, message)
        _log.warning("Evicting a pod", pod=f"{namespace_of(pod)}/{name_of(pod)}", signal=signal, message=message)
        self._node.end(pod, Failure(ranking.REASON, message, disrupted=True), grace)

    def _tell(self, conditions: tuple[str, ...]) -> None:
        before, self.conditions = self.conditions, conditions
        for kind, (bad, good) in TRANSITIONS.items():
            if (kind in conditions) != (kind in before):
                reason = bad if kind in conditions else good
                self._note("Normal", reason, f"Node {self._node_name} status is now: {reason}")

    def _note(self, kind: str, reason: str, note: str) -> None:
        node_event(self._node_events, self._node_name, kind, reason, note)


TRANSITIONS = {
    "MemoryPressure": ("NodeHasInsufficientMemory", "NodeHasSufficientMemory"),
    "DiskPressure": ("NodeHasDiskPressure", "NodeHasNoDiskPressure"),
    "PIDPressure": ("NodeHasInsufficientPID", "NodeHasSufficientPID"),
}

"""The real node under eviction and shutdown: the kernel's figures, the runtime's statistics, the pod workers."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apimachinery.meta import uid_of
from node.kubelet.eviction import ranking, signals
from node.kubelet.pleg import Pleg
from node.kubelet.pod_manager import PodManager
from node.kubelet.pod_status import Failure
from node.kubelet.pod_workers import PodWorkers
from node.kubelet.stats.pods import PodUsage

Pod = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RealNode:
    """Fulfils ``eviction.manager.Node`` and ``shutdown.manager.Pods``."""

    places: signals.Places
    wanted: PodManager
    workers: PodWorkers
    pleg: Pleg
    measure: PodUsage

    async def observe(self) -> signals.Observations:
        return await asyncio.to_thread(signals.read, self.places)

    def dedicated_image_fs(self) -> bool:
        return signals.dedicated_image_fs(self.places.root_dir, self.places.image_fs())

    def active_pods(self) -> Sequence[Pod]:
        return self.wanted.active()

    async def usage(self, listed: Sequence[Pod]) -> ranking.Usage:
        return await self.measure.measure(listed)

    def end(self, pod: Pod, failure: Failure, grace: int) -> None:
        self.workers.evict(uid_of(pod), failure, grace)

    def gone(self, pod: Pod) -> bool:
        """Not before its volumes are: one in memory is what the node may have lacked."""
        return self.workers.terminated(uid_of(pod)) and not self.pleg.get(uid_of(pod)).stoppable()

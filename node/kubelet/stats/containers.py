"""Usage of containers as CRI tells it. Fulfils ``node.kubelet.stats.usage.StatsSource``."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from cri.api import runtime_v1_pb2 as pb
from cri.interface import RuntimeService
from node.kubelet.runtime.observed import ObservedContainer, ObservedPod
from node.kubelet.stats.usage import ContainerUsage


@dataclass(frozen=True, slots=True)
class CriStats:
    """Asks the runtime at each call; upstream's readers come every 15 s."""

    runtime: RuntimeService
    node_name: str
    observed: Callable[[], Mapping[str, ObservedPod]] = dict

    async def containers(self) -> Sequence[ContainerUsage]:
        known = {one.id: one for pod in self.observed().values() for one in pod.containers}
        return [_dated(usage(item), known.get(item.attributes.id)) for item in await self.runtime.list_container_stats()]


def _dated(one: ContainerUsage, observed: ObservedContainer | None) -> ContainerUsage:
    """With what the statistics do not say: when it was started, from which image."""
    if observed is None or not observed.started_at:
        return one
    return replace(one, started_at=datetime.fromtimestamp(observed.started_at / 1e9, UTC), image=observed.image)


def usage(stats: pb.ContainerStats) -> ContainerUsage:
    """One container, named by the labels that kubelets put on it."""
    labels = stats.attributes.labels
    memory = stats.memory
    return ContainerUsage(
        namespace=labels.get("io.kubernetes.pod.namespace", ""),
        pod=labels.get("io.kubernetes.pod.name", ""),
        pod_uid=labels.get("io.kubernetes.pod.uid", ""),
        name=labels.get("io.kubernetes.container.name", "") or stats.attributes.metadata.name,
        timestamp_ns=stats.cpu.timestamp or memory.timestamp,
        cpu_nanoseconds=stats.cpu.usage_core_nano_seconds.value,
        cpu_nanocores=stats.cpu.usage_nano_cores.value,
        memory_working_set=memory.working_set_bytes.value,
        memory_usage=memory.usage_bytes.value,
        memory_rss=memory.rss_bytes.value,
        rootfs_used=stats.writable_layer.used_bytes.value,
        rootfs_inodes=stats.writable_layer.inodes_used.value,
        id=stats.attributes.id,
    )

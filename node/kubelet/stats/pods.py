"""What each pod uses, put together from the runtime's statistics, its folders on disk and its cgroup. Asked by eviction."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apimachinery.meta import name_of, namespace_of, uid_of
from apimachinery.objects import pods as podlib
from cri.interface import RuntimeService
from node.kubelet.config import KubeletConfig
from node.kubelet.eviction.ranking import ContainerUsed, PodUsed
from node.kubelet.runtime import names
from node.kubelet.stats.containers import usage
from node.kubelet.stats.disk import DiskUsed, disk_used
from node.kubelet.stats.usage import ContainerUsage

Pod = Mapping[str, Any]

_ON_DISK = {"emptyDir": "kubernetes.io~empty-dir", "configMap": "kubernetes.io~configmap"}


@dataclass(frozen=True, slots=True)
class PodUsage:
    """Measures pods on demand: one call to the runtime, one walk through the folders of the pods asked for."""

    runtime: RuntimeService
    config: KubeletConfig
    processes: Callable[[Pod], int] = lambda pod: 0

    async def measure(self, listed: Sequence[Pod]) -> dict[str, PodUsed]:
        """By uid. Raises ``cri.errors.RuntimeServiceError``."""
        by_pod: dict[str, list[ContainerUsage]] = {}
        for stats in await self.runtime.list_container_stats():
            one = usage(stats)
            by_pod.setdefault(one.pod_uid, []).append(one)
        return await asyncio.to_thread(lambda: {uid_of(pod): self._measure(pod, by_pod.get(uid_of(pod), [])) for pod in listed})

    def _measure(self, pod: Pod, containers: Sequence[ContainerUsage]) -> PodUsed:
        pod_dir = self.config.pod_dir(uid_of(pod))
        written = {each.name: each for each in containers}
        made = {}
        for container in podlib.all_containers(pod):
            name = str(container["name"])
            one, logs = written.get(name), self._logs(pod, name)
            made[name] = ContainerUsed(
                memory=one.memory_working_set if one else 0,
                rootfs=one.rootfs_used if one else 0,
                rootfs_inodes=one.rootfs_inodes if one else 0,
                logs=logs.bytes,
                logs_inodes=logs.inodes,
            )
        volumes = {}
        for volume in podlib.spec_of(pod).get("volumes") or ():
            if folder := local_folder(volume, pod_dir):
                used = disk_used(folder)
                volumes[str(volume["name"])] = (used.bytes, used.inodes)
        hosts = disk_used(pod_dir / "etc-hosts")
        return PodUsed(made, volumes, (hosts.bytes, hosts.inodes), self.processes(pod))

    def _logs(self, pod: Pod, container: str) -> DiskUsed:
        folder = names.pod_log_directory(self.config.pod_logs_dir, namespace_of(pod), name_of(pod), uid_of(pod))
        return disk_used(folder / container)


def local_folder(volume: Mapping[str, Any], pod_dir: Path) -> Path | None:
    """Where a volume takes the node's own disk; None for volumes in memory or of other storage."""
    kind = next((key for key in _ON_DISK if volume.get(key) is not None), None)
    if kind is None or (kind == "emptyDir" and (volume["emptyDir"].get("medium") or "")):
        return None
    return pod_dir / "volumes" / _ON_DISK[kind] / str(volume["name"])

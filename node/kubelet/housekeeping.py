"""Sweeps up after crashes: sandboxes, directories, cgroups and logs of pods that nobody wants any more.

``kubelet.py`` runs it once the wanted pods are known for sure; before that everything unknown might still be wanted.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from apimachinery.meta import uid_of
from component import logs
from component.clock import Clock
from node.kubelet.interface import VolumeError
from node.kubelet.pleg import Pleg
from node.kubelet.pod_manager import PodManager
from node.kubelet.pod_workers import PodWorkers
from node.kubelet.runtime import files
from node.kubelet.runtime.host import Host
from node.kubelet.volumes import mounts

_PERIOD = 2.0
_DISK_EVERY = 5
_log = logs.get(__name__)


class Housekeeping:
    """See the module."""

    def __init__(
        self,
        host: Host,
        pleg: Pleg,
        manager: PodManager,
        workers: PodWorkers,
        collectors: Sequence[Callable[[], None]],
        clock: Clock,
    ) -> None:
        self._host = host
        self._pleg = pleg
        self._manager = manager
        self._workers = workers
        self._collectors = collectors
        self._clock = clock

    async def run(self) -> None:
        """Every two seconds the runtime, every ten the disk."""
        turn = 0
        while True:
            self.clear_orphans()
            await self._host.cgroups.weigh([pod for pod in self._manager.pods() if not self._workers.terminating(uid_of(pod))])
            if turn % _DISK_EVERY == 0:
                await self.sweep_disk()
                for collect in self._collectors:
                    collect()
            turn += 1
            await self._clock.sleep(_PERIOD)

    def clear_orphans(self) -> None:
        """Let a worker end what the runtime has of pods that are not wanted."""
        for uid in list(self._pleg.pods()):
            if self._manager.get(uid) is None and not self._workers.knows(uid):
                _log.info("Removing a pod that is not wanted any more", uid=uid)
                self._workers.clear(uid)

    async def sweep_disk(self) -> None:
        """Directories of pods that are neither wanted nor running."""
        for uid in await asyncio.to_thread(_names, self._host.config.root_dir / "pods"):
            if not self._known(uid):
                try:
                    await self._host.volumes.unmount(uid, self._host.config.pod_dir(uid))
                except VolumeError as error:
                    _log.warning("Cannot unmount the volumes of a gone pod", uid=uid, err=error)
                    continue
                await self._host.cgroups.remove(uid)
                await asyncio.to_thread(self._host.users.release, uid)
                try:
                    await asyncio.to_thread(mounts.remove_tree, self._host.config.pod_dir(uid))
                except OSError as error:
                    _log.warning("Cannot remove the directory of a gone pod", uid=uid, err=error)
        await self._host.volumes.sweep()
        for uid in await self._host.cgroups.present():
            if not self._known(uid):
                await self._host.cgroups.remove(uid)
        for name in await asyncio.to_thread(_names, self._host.config.pod_logs_dir):
            if name.count("_") == 2 and not self._known(name.rpartition("_")[2]):
                await asyncio.to_thread(files.remove_tree, self._host.config.pod_logs_dir / name)

    def _known(self, uid: str) -> bool:
        return self._manager.get(uid) is not None or self._workers.knows(uid) or uid in self._pleg.pods()


def _names(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir()] if folder.is_dir() else []

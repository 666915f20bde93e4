"""The volumes of all pods of this node: the VolumeManager that pod workers call. One table maps source to plugin.

``kubelet.py`` makes one and hands it an ObjectSource. No state but the token cache lives in memory: what is mounted is
read from the disk and from mountinfo, so a restarted kubelet continues where the last one stopped.
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from apimachinery.errors import StatusError
from component.clock import Clock, RealClock
from node.kubelet.interface import Mount, ObjectSource, Pod, VolumeError
from node.kubelet.volumes import mounts, subpath
from node.kubelet.volumes.contract import PLUGINS, SUBPATHS, VOLUMES, Plugin, VolumeRequest, directory_of
from node.kubelet.volumes.plugins.config_map import ConfigMap
from node.kubelet.volumes.plugins.downward_api import DownwardAPI
from node.kubelet.volumes.plugins.empty_dir import EmptyDir
from node.kubelet.volumes.plugins.host_path import HostPath
from node.kubelet.volumes.plugins.projected import Projected
from node.kubelet.volumes.plugins.secret import Secret
from node.kubelet.volumes.tokens import Tokens


class Manager:
    """Fulfils ``node.kubelet.interface.VolumeManager``.

    ``root`` is the kubelet's root directory (``<root>/pods/<uid>``); ``allocatable`` answers the node's allocatable
    resources, which downwardAPI limits and memory volumes fall back to.
    """

    def __init__(
        self,
        source: ObjectSource,
        root: Path,
        *,
        allocatable: Callable[[], Mapping[str, str]] = dict,
        clock: Clock | None = None,
    ) -> None:
        clock = clock or RealClock()
        self._root = root
        self._tokens = Tokens(source, clock)
        self._plugins: Mapping[str, Plugin] = {
            "emptyDir": EmptyDir(allocatable),
            "hostPath": HostPath(),
            "configMap": ConfigMap(source, clock),
            "secret": Secret(source, clock),
            "projected": Projected(source, self._tokens, allocatable, clock),
            "downwardAPI": DownwardAPI(allocatable, clock),
        }

    async def mount(self, pod: Pod, pod_dir: Path) -> Mapping[str, Mount]:
        mounted = {}
        for volume in pod["spec"].get("volumes") or ():
            mounted[volume["name"]] = await self._set_up(pod, pod_dir, volume)
        return mounted

    async def refresh(self, pod: Pod) -> None:
        pod_dir = self._root / "pods" / pod["metadata"]["uid"]
        for volume in pod["spec"].get("volumes") or ():
            plugin, _ = self._plugin(volume)
            if plugin.refreshes:
                await self._set_up(pod, pod_dir, volume)

    async def sub_path(self, mount: Mount, path: str, pod_dir: Path, volume: str, container: str, index: int) -> Path:
        """What to bind for a volumeMount with ``subPath`` (expanded): a path that no link can bend. See ``subpath.py``."""
        target = pod_dir / SUBPATHS / volume / container / str(index)
        return await asyncio.to_thread(subpath.prepare, mount, path, target)

    async def unmount(self, uid: str, pod_dir: Path) -> None:
        self._tokens.forget(uid)
        try:
            # subpath binds point into the volumes, so they go first
            await asyncio.to_thread(mounts.clear, pod_dir, (SUBPATHS, VOLUMES, PLUGINS))
        except OSError as error:
            raise VolumeError(f"volumes of pod {uid} cannot be removed: {error}") from error

    async def _set_up(self, pod: Pod, pod_dir: Path, volume: Mapping[str, Any]) -> Mount:
        name = volume["name"]
        try:
            plugin, source = self._plugin(volume)
            request = VolumeRequest(pod, name, source, directory_of(pod_dir, plugin.name, name))
            return await plugin.set_up(request)
        except (VolumeError, StatusError, OSError) as error:
            raise VolumeError(f'MountVolume.SetUp failed for volume "{name}" : {error}') from error

    def _plugin(self, volume: Mapping[str, Any]) -> tuple[Plugin, Mapping[str, Any]]:
        kind = next((key for key in volume if key != "name" and volume[key] is not None), "emptyDir")
        plugin = self._plugins.get(kind)
        if plugin is None:
            raise VolumeError(f"no volume plugin matched: this kubelet does not support {kind} volumes")
        return plugin, volume.get(kind) or {}

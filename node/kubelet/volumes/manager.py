"""The volumes of all pods of this node: the VolumeManager that pod workers call. One table maps source to plugin.

``kubelet.py`` makes one and hands it an ObjectSource. No state but the token cache lives in memory: what is mounted is
read from the disk and from mountinfo, so a restarted kubelet continues where the last one stopped.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.objects import volumes
from component import logs
from component.clock import Clock, RealClock
from component.process import RealRunner, Runner
from node.kubelet.interface import Mount, ObjectSource, Pod, VolumeError, VolumeStats
from node.kubelet.volumes import claims, measure, mounts, subpath
from node.kubelet.volumes.contract import DEVICES, PLUGINS, SUBPATHS, VOLUMES, Plugin, VolumeRequest, directory_of
from node.kubelet.volumes.csi import records
from node.kubelet.volumes.csi.plugin import Csi
from node.kubelet.volumes.plugins.config_map import ConfigMap
from node.kubelet.volumes.plugins.downward_api import DownwardAPI
from node.kubelet.volumes.plugins.empty_dir import EmptyDir
from node.kubelet.volumes.plugins.host_path import HostPath
from node.kubelet.volumes.plugins.image import Image
from node.kubelet.volumes.plugins.local import Local, Warn
from node.kubelet.volumes.plugins.projected import Projected
from node.kubelet.volumes.plugins.secret import Secret
from node.kubelet.volumes.pod_certificates import PodCertificates
from node.kubelet.volumes.tokens import Tokens

_COUNTED = frozenset({"emptyDir", "configMap", "secret", "projected", "downwardAPI"})
_WITH_CLAIM = ("persistentVolumeClaim", "ephemeral")
_CSI_REFRESH = 60.0
_log = logs.get(__name__)


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
        node: Callable[[], Mapping[str, Any] | None] = lambda: None,
        runner: Runner | None = None,
        csi: Callable[[Tokens], Csi] | None = None,
        local_paths: Path | None = None,
        warn: Warn = lambda pod, reason, note: None,
        certificates: PodCertificates | None = None,
    ) -> None:
        clock = clock or RealClock()
        self._root, self._source, self._node = root, source, node
        self._tokens = Tokens(source, clock)
        self._certificates = certificates
        self._plugins: dict[str, Plugin] = {
            "emptyDir": EmptyDir(allocatable),
            "hostPath": HostPath(),
            "configMap": ConfigMap(source, clock),
            "secret": Secret(source, clock),
            "projected": Projected(source, self._tokens, allocatable, clock, certificates),
            "downwardAPI": DownwardAPI(allocatable, clock),
            "image": Image(),
        }
        self._csi = csi(self._tokens) if csi is not None else None
        if self._csi is not None:
            self._csi.recover()
        self._clock = clock
        self._looked: dict[tuple[str, str], float] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._local = Local(root, runner or RealRunner(clock), local_paths, warn)
        self._persistent: dict[str, Plugin] = {"hostPath": self._plugins["hostPath"], "local": self._local}
        if self._csi is not None:
            self._plugins["csi"] = self._persistent["csi"] = self._csi

    async def mount(self, pod: Pod, pod_dir: Path) -> Mapping[str, Mount]:
        mounted = {}
        for volume in pod["spec"].get("volumes") or ():
            mounted[volume["name"]] = await self._set_up(pod, pod_dir, volume)
        return mounted

    async def refresh(self, pod: Pod) -> None:
        pod_dir = self._root / "pods" / pod["metadata"]["uid"]
        for volume in pod["spec"].get("volumes") or ():
            kind = kind_of(volume)
            if kind in ("csi", *_WITH_CLAIM):
                await self._refresh_csi(pod, pod_dir, volume)
            elif kind in self._plugins and self._plugins[kind].refreshes:
                await self._set_up(pod, pod_dir, volume)

    async def _refresh_csi(self, pod: Pod, pod_dir: Path, entry: Mapping[str, Any]) -> None:
        """Whether a claim has grown, or its driver wants to publish anew, is asked less often: it takes two reads."""
        key = (str(pod["metadata"]["uid"]), str(entry["name"]))
        now = self._clock.monotonic()
        if self._csi is None or now - self._looked.setdefault(key, now) < _CSI_REFRESH:
            return
        self._looked[key] = now
        persistent = await claims.resolve(self._source, pod, entry, started=True)
        if persistent is not None and volumes.source_of(persistent.volume)[0] != "csi":
            return
        try:
            _, request = self._request(pod, pod_dir, entry, persistent)
            await self._csi.refresh(request)
        except (VolumeError, StatusError, OSError) as error:
            raise VolumeError(f'MountVolume.SetUp failed for volume "{entry["name"]}" : {error}') from error

    async def sub_path(self, mount: Mount, path: str, pod_dir: Path, volume: str, container: str, index: int) -> Path:
        """What to bind for a volumeMount with ``subPath`` (expanded): a path that no link can bend. See ``subpath.py``."""
        target = pod_dir / SUBPATHS / volume / container / str(index)
        return await asyncio.to_thread(subpath.prepare, mount, path, target)

    async def read_file(self, mount: Mount, path: str) -> bytes | None:
        return await asyncio.to_thread(subpath.read, mount, path)

    async def unmount(self, uid: str, pod_dir: Path) -> None:
        self._tokens.forget(uid)
        if self._certificates is not None:
            self._certificates.forget(uid)
        for key in [key for key in self._looked if key[0] == uid]:
            del self._looked[key]
        for key in [key for key in self._names if key[0] == uid]:
            del self._names[key]
        try:
            # subpath binds point into the volumes, so they go first; what drivers have mounted they unmount themselves
            if self._csi is not None:
                if await asyncio.to_thread(records.of_pod, pod_dir):
                    await asyncio.to_thread(mounts.clear, pod_dir, (SUBPATHS,))
                await self._csi.tear_down(uid, pod_dir)
            await asyncio.to_thread(mounts.clear, pod_dir, (SUBPATHS, VOLUMES, DEVICES, PLUGINS))
        except (OSError, VolumeError) as error:
            raise VolumeError(f"volumes of pod {uid} cannot be removed: {error}") from error

    async def stats(self, pod: Pod) -> Sequence[VolumeStats]:
        pod_dir = self._root / "pods" / pod["metadata"]["uid"]
        found = [await self._stats(pod, pod_dir, entry) for entry in pod["spec"].get("volumes") or ()]
        return [each for each in found if each is not None]

    async def _stats(self, pod: Pod, pod_dir: Path, entry: Mapping[str, Any]) -> VolumeStats | None:
        """None for volumes that cannot be measured: those of the node itself, bare devices, and what is not mounted yet."""
        name, kind = str(entry["name"]), kind_of(entry)
        if kind in _COUNTED:
            path = directory_of(pod_dir, self._plugins[kind].name, name)
            return await asyncio.to_thread(measure.of_folder, path, name) if await asyncio.to_thread(path.is_dir) else None
        if kind not in ("csi", *_WITH_CLAIM):
            return None
        claim, volume = await self._behind(pod, entry)
        local = directory_of(pod_dir, self._local.name, volume)
        if claim is not None and await asyncio.to_thread(local.is_dir):
            return await asyncio.to_thread(measure.of_file_system, local, name, claim)
        record = await asyncio.to_thread(records.find, pod_dir, volume)
        if record is None or record.is_block or self._csi is None:
            return None
        return await self._csi.stats(record, name, claim)

    async def _behind(self, pod: Pod, entry: Mapping[str, Any]) -> tuple[tuple[str, str] | None, str]:
        """(claim, what the volume's directory is called). Which volume a claim is bound to never changes, so it is kept."""
        key = (str(pod["metadata"]["uid"]), str(entry["name"]))
        if key not in self._names:
            persistent = await claims.resolve(self._source, pod, entry, started=True)
            self._names[key] = persistent.name if persistent is not None else str(entry["name"])
        claim = volumes.claim_name(pod, entry)
        return ((str(pod["metadata"].get("namespace", "default")), claim) if claim else None), self._names[key]

    async def sweep(self) -> None:
        try:
            await self._local.sweep()
            if self._csi is not None:
                await self._csi.sweep()
        except (OSError, VolumeError) as error:
            _log.warning("Volumes that no pod uses cannot be unmounted", err=error)

    async def _set_up(self, pod: Pod, pod_dir: Path, entry: Mapping[str, Any]) -> Mount:
        started = bool(pod.get("status", {}).get("containerStatuses"))
        persistent = await claims.resolve(self._source, pod, entry, started=started)
        name = persistent.name if persistent is not None else entry["name"]
        try:
            plugin, request = self._request(pod, pod_dir, entry, persistent)
            if persistent is not None and "ReadWriteOncePod" in volumes.access_modes(persistent.claim):
                await asyncio.to_thread(_check_alone, self._root / "pods", request.directory)
            return await plugin.set_up(request)
        except (VolumeError, StatusError, OSError) as error:
            raise VolumeError(f'MountVolume.SetUp failed for volume "{name}" : {error}') from error

    def _request(
        self, pod: Pod, pod_dir: Path, entry: Mapping[str, Any], persistent: claims.Persistent | None
    ) -> tuple[Plugin, VolumeRequest]:
        """Which plugin, and what it is asked."""
        if persistent is None:
            kind, source, name = kind_of(entry), entry.get(kind_of(entry)) or {}, str(entry["name"])
            plugin, read_only = self._plugins.get(kind), False
        else:
            claims.check_mode(pod, str(entry["name"]), persistent)
            node = self._node()
            if node is not None and not volumes.accepts_node(persistent.volume, node):
                raise VolumeError("NodeAffinity check failed: no matching NodeSelectorTerms")
            kind, source = volumes.source_of(persistent.volume)
            plugin, name = self._persistent.get(kind), persistent.name
            read_only = bool((entry.get("persistentVolumeClaim") or {}).get("readOnly"))
        if plugin is None:
            raise VolumeError(f"no volume plugin matched: this kubelet does not support {kind} volumes")
        return plugin, VolumeRequest(pod, name, source, directory_of(pod_dir, plugin.name, name), persistent, read_only)


def _check_alone(pods: Path, directory: Path) -> None:
    """A volume for one pod is not in another's folder. The scheduler sees to it, but not for pods that name their node."""
    own, where = directory.parents[2].name, directory.relative_to(directory.parents[2])
    for other in pods.iterdir():
        if other.name != own and (other / where).exists():
            raise VolumeError("volume uses the ReadWriteOncePod access mode and is already in use by another pod")


def kind_of(entry: Mapping[str, Any]) -> str:
    """The field that says what a volume of a pod is; nothing at all means emptyDir."""
    return next((key for key in entry if key != "name" and entry[key] is not None), "emptyDir")

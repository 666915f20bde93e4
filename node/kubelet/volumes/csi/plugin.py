"""csi: volumes that a driver mounts. Attached (by others), staged once for the node, published for each pod; and all of it back.

Every step is on record on the disk before it is taken (``records``), and CSI makes every call repeatable, so that a kubelet
that was killed in the middle goes on where its predecessor stopped. ``manager`` calls.
"""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from apimachinery.errors import StatusError
from apimachinery.objects import attachments
from component import logs
from component.clock import Clock
from node.kubelet.interface import Mount, ObjectSource, Pod, VolumeError, VolumeStats
from node.kubelet.volumes import mounts, ownership, projection
from node.kubelet.volumes.contract import VolumeRequest
from node.kubelet.volumes.csi import records, spec
from node.kubelet.volumes.csi.driver import Capability, Driver, Volume
from node.kubelet.volumes.csi.in_use import InUse
from node.kubelet.volumes.csi.records import Record
from node.kubelet.volumes.csi.registry import CsiRegistry
from node.kubelet.volumes.csi.spec import Wanted
from node.kubelet.volumes.tokens import Tokens

_ATTACH_SECONDS, _ATTACH_LOOK = 120.0, 0.5
_TOKENS = "csi.storage.k8s.io/serviceAccount.tokens"
_ALL = range(1, 7)
_log = logs.get(__name__)


@dataclass(slots=True)
class Csi:
    """``grown`` is told of a volume that has reached the size of its PersistentVolume: pod, claim, volume."""

    root: Path
    node_name: str
    registry: CsiRegistry
    source: ObjectSource
    tokens: Tokens
    clock: Clock
    used: InUse
    grown: Callable[[Pod, Mapping[str, Any], Mapping[str, Any]], Awaitable[None]]
    name: str = records.NAME
    refreshes: bool = True
    _published: set[tuple[str, str]] = field(default_factory=set)
    _using: dict[tuple[str, str], str] = field(default_factory=dict)
    _locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = field(default_factory=WeakValueDictionary)

    # In use

    def recover(self) -> None:
        """What the last kubelet left mounted. Blocks; called once, before anything else."""
        for uid, record in records.of_all_pods(self.root):
            if record.attachment:
                self._using[uid, record.name] = attachments.unique_name(record.driver, record.handle)
        for driver, handle, _ in records.staged(self.root):
            self._using["", f"{driver}^{handle}"] = attachments.unique_name(driver, handle)

    def in_use(self) -> list[str]:
        """Attached volumes that must not be detached, by the names that nodes give them."""
        return sorted(set(self._using.values()))

    def _lock(self, driver: str, handle: str) -> asyncio.Lock:
        return self._locks.setdefault((driver, handle), asyncio.Lock())

    # Up

    async def set_up(self, request: VolumeRequest) -> Mount:
        wanted = spec.wanted(request)
        uid = str(request.pod["metadata"]["uid"])
        lock = self._lock(wanted.driver, wanted.handle)
        async with lock:
            return await self._set_up(request, wanted, uid)

    async def refresh(self, request: VolumeRequest) -> None:
        """For drivers that want to be asked again, and for volumes that have grown: now and then, while the pod runs."""
        wanted = spec.wanted(request)
        described = await self.source.csi_driver(wanted.driver)
        persistent = request.persistent
        grows = persistent is not None and spec.size_to_reach(persistent.volume, persistent.claim) > 0
        if grows or ((described or {}).get("spec") or {}).get("requiresRepublish"):
            async with self._lock(wanted.driver, wanted.handle):
                await self._set_up(request, wanted, str(request.pod["metadata"]["uid"]), again=True)

    async def _set_up(self, request: VolumeRequest, wanted: Wanted, uid: str, *, again: bool = False) -> Mount:
        pod_dir = request.directory.parents[2]
        target = self._target(pod_dir, wanted, uid)
        mount = Mount(target, wanted.read_only, is_file=wanted.is_block, is_block=wanted.is_block)
        if not again and (uid, wanted.name) in self._published and await asyncio.to_thread(_is_there, target):
            return mount
        driver = self.registry.driver(wanted.driver)
        described = await self.source.csi_driver(wanted.driver)
        spec.check_life_cycle(wanted, described)
        attachment, context = await self._attached(wanted, described, uid)
        folder = (records.device_folder if wanted.is_block else records.folder_of)(pod_dir, wanted.name)
        record = Record(folder, wanted.name, wanted.handle, wanted.driver, attachment, wanted.ephemeral, target, wanted.is_block)
        await asyncio.to_thread(records.write, record, self.node_name)
        abilities = {each for each in _ALL if await driver.can(each)}
        volume = await self._volume(request, wanted, described, abilities, context)
        if volume.staging:
            await self._stage(driver, wanted, volume)
        await asyncio.to_thread(target.parent.mkdir, mode=0o750, parents=True, exist_ok=True)
        secrets = await self._secrets(wanted.publish_secret)
        context_of_pod = await self._pod_context(request, wanted, described)
        published = Volume(volume.handle, volume.capability, volume.staging, context, {**volume.volume_context, **context_of_pod})
        await driver.publish(published, str(target), secrets, read_only=wanted.read_only)
        fresh = (uid, wanted.name) not in self._published
        self._published.add((uid, wanted.name))
        await self._own(request, wanted, described, abilities, target, fresh=fresh)
        await self._expand(request, wanted, driver, published, abilities)
        return mount

    def _target(self, pod_dir: Path, wanted: Wanted, uid: str) -> Path:
        if wanted.is_block:
            return records.device_target_of(self.root, wanted.name, uid)
        return records.folder_of(pod_dir, wanted.name) / "mount"

    async def _attached(self, wanted: Wanted, described: Mapping[str, Any] | None, uid: str) -> tuple[str, Mapping[str, str]]:
        """Wait until the volume is attached; (name of the attachment, what the attacher says). ("", {}) if it need not be."""
        if wanted.ephemeral or not attachments.needs_attaching(described):
            return "", {}
        called = attachments.unique_name(wanted.driver, wanted.handle)
        if self._using.get((uid, wanted.name)) != called:
            self._using[uid, wanted.name] = called
            await self.used.tell(self.in_use())  # before the volume is touched, or it might be detached under us
        name = attachments.attachment_name(wanted.handle, wanted.driver, self.node_name)
        until = self.clock.monotonic() + _ATTACH_SECONDS
        while True:
            found = await self._attachment(name)
            status = (found or {}).get("status") or {}
            if status.get("attached"):
                return name, status.get("attachmentMetadata") or {}
            if problem := (status.get("attachError") or {}).get("message"):
                raise VolumeError(problem)
            if self.clock.monotonic() >= until:
                raise VolumeError(
                    f"timed out waiting for external-attacher of {wanted.driver} CSI driver to attach volume {wanted.handle}"
                )
            await self.clock.sleep(_ATTACH_LOOK)

    async def _attachment(self, name: str) -> Mapping[str, Any] | None:
        try:
            return await self.source.volume_attachment(name)
        except StatusError as error:
            if error.code == 404:
                return None
            raise

    async def _volume(
        self,
        request: VolumeRequest,
        wanted: Wanted,
        described: Mapping[str, Any] | None,
        abilities: Iterable[int],
        context: Mapping[str, str],
    ) -> Volume:
        able = frozenset(abilities)
        group = request.fs_group
        delegated = group is not None and Capability.VOLUME_MOUNT_GROUP in able and spec.kubelet_sets_group(wanted, described)
        staging = ""
        if Capability.STAGE_UNSTAGE_VOLUME in able and not wanted.ephemeral:
            staging = str(records.staging_of(self.root, wanted.driver, wanted.handle))
        capability = spec.capability(wanted, able, str(group) if delegated else "")
        return Volume(wanted.handle, capability, staging, context, wanted.attributes)

    async def _stage(self, driver: Driver, wanted: Wanted, volume: Volume) -> None:
        await asyncio.to_thread(records.write_staging, Path(volume.staging), wanted.driver, wanted.handle)
        await driver.stage(volume, await self._secrets(wanted.stage_secret))

    async def _secrets(self, reference: tuple[str, str] | None) -> dict[str, str]:
        if reference is None:
            return {}
        found = projection.secret_data(await self.source.secret(*reference))
        return {key: value.decode(errors="surrogateescape") for key, value in found.items()}

    async def _pod_context(self, request: VolumeRequest, wanted: Wanted, described: Mapping[str, Any] | None) -> dict[str, str]:
        given = (described or {}).get("spec") or {}
        context = spec.pod_info(request.pod, ephemeral=wanted.ephemeral) if given.get("podInfoOnMount") else {}
        tokens = {}
        for each in given.get("tokenRequests") or ():
            audience, seconds = str(each.get("audience") or ""), int(each.get("expirationSeconds") or 3600)
            text, expires = await self.tokens.get_with_expiry(request.pod, audience, seconds)
            tokens[audience] = {"token": text, "expirationTimestamp": expires}
        if tokens:
            context[_TOKENS] = json.dumps(tokens, separators=(",", ":"))
        return context

    async def _own(
        self,
        request: VolumeRequest,
        wanted: Wanted,
        described: Mapping[str, Any] | None,
        abilities: Iterable[int],
        target: Path,
        *,
        fresh: bool,
    ) -> None:
        """fsGroup, unless the driver saw to it."""
        group = request.fs_group
        if group is None or wanted.is_block or not fresh or Capability.VOLUME_MOUNT_GROUP in frozenset(abilities):
            return
        if spec.kubelet_sets_group(wanted, described):
            change = request.fs_group_on_root_mismatch
            await asyncio.to_thread(ownership.set_group, target, group, read_only=False, on_root_mismatch=change)

    async def _expand(
        self, request: VolumeRequest, wanted: Wanted, driver: Driver, volume: Volume, abilities: Iterable[int]
    ) -> None:
        persistent = request.persistent
        size = spec.size_to_reach(persistent.volume, persistent.claim) if persistent is not None else 0
        if persistent is None or not size or Capability.EXPAND_VOLUME not in frozenset(abilities) or wanted.read_only:
            return
        pod_dir = request.directory.parents[2]
        target = self._target(pod_dir, wanted, str(request.pod["metadata"]["uid"]))
        await driver.expand(volume, str(target), size, await self._secrets(wanted.expand_secret))
        await self.grown(request.pod, persistent.claim, persistent.volume)

    async def stats(self, record: Record, name: str, claim: tuple[str, str] | None) -> VolumeStats | None:
        """What the driver says, if it does. Raises VolumeError."""
        driver = self.registry.driver(record.driver)
        if not await driver.can(Capability.GET_VOLUME_STATS):
            return None
        staging = "" if record.ephemeral else str(records.staging_of(self.root, record.driver, record.handle))
        return spec.stats(await driver.stats(record.handle, str(record.target), staging), name, claim)

    # Down

    async def tear_down(self, uid: str, pod_dir: Path) -> None:
        """Unpublish what is on record for a pod; unstage what no other pod uses. Raises VolumeError."""
        for record in await asyncio.to_thread(records.of_pod, pod_dir):
            async with self._lock(record.driver, record.handle):
                driver = self.registry.driver(record.driver)
                await driver.unpublish(record.handle, str(record.target))
                await asyncio.to_thread(_clear_target, record)
                await asyncio.to_thread(records.forget, record)
                self._published.discard((uid, record.name))
                await self._unstage_unused(record.driver, record.handle)
        used = [key for key in self._using if key[0] == uid]  # also what was waited for and never came
        for key in used:
            del self._using[key]
        if used:
            await self._tell_less()

    async def sweep(self) -> None:
        """Unstage what a predecessor was killed over, between the last unpublishing and this."""
        for driver, handle, _ in await asyncio.to_thread(records.staged, self.root):
            lock = self._lock(driver, handle)
            if lock.locked():
                continue
            async with lock:
                try:
                    await self._unstage_unused(driver, handle)
                except (VolumeError, OSError) as error:
                    _log.warning("A volume that no pod uses cannot be unstaged", driver=driver, err=error)
        staged = {f"{driver}^{handle}" for driver, handle, _ in await asyncio.to_thread(records.staged, self.root)}
        for key in [key for key in self._using if not key[0] and key[1] not in staged]:
            del self._using[key]
        try:
            await self.used.check(self.in_use())
        except (StatusError, OSError) as error:
            _log.warning("Volumes in use could not be reported", err=error)

    async def _unstage_unused(self, driver: str, handle: str) -> None:
        staging = records.staging_of(self.root, driver, handle)
        if not await asyncio.to_thread(staging.parent.is_dir) or await asyncio.to_thread(self._is_used, driver, handle):
            return
        await self.registry.driver(driver).unstage(handle, str(staging))
        await asyncio.to_thread(_forget_staging, staging)
        self._using.pop(("", f"{driver}^{handle}"), None)

    def _is_used(self, driver: str, handle: str) -> bool:
        return any((record.driver, record.handle) == (driver, handle) for _, record in records.of_all_pods(self.root))

    async def _tell_less(self) -> None:
        """Failing to tell that a volume may be detached hinders nobody here: ``sweep`` tells it again."""
        try:
            await self.used.tell(self.in_use())
        except (StatusError, OSError) as error:
            _log.v(2, "Volumes in use could not be reported", err=error)


def _is_there(target: Path) -> bool:
    return mounts.mounted_as(target) is not None or target.exists()


def _clear_target(record: Record) -> None:
    """What drivers leave of the place they published at. A mount that is still there is not ours to delete under."""
    if mounts.mounted_as(record.target) is not None:
        raise VolumeError(f"driver {record.driver} has unpublished {record.target}, but it is still mounted")
    if record.target.is_dir() and not record.target.is_symlink():
        os.rmdir(record.target)
    else:
        record.target.unlink(missing_ok=True)


def _forget_staging(staging: Path) -> None:
    if mounts.mounted_as(staging) is not None:
        raise VolumeError(f"{staging} has been unstaged, but is still mounted")
    records.forget_staging(staging)

"""local: a directory, a disk with a file system, or a bare device of this node, through a PersistentVolume.

A directory is bound into the pod's own; a disk is mounted once for the node, below ``plugins``, and bound from there. The
runtime gets a bare device by its path.
"""

import asyncio
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from apimachinery.objects import local_path as names
from component.process import Runner
from node.kubelet.interface import Mount, Pod, VolumeError
from node.kubelet.volumes import filesystem, local_path, mounts, ownership
from node.kubelet.volumes.contract import VolumeRequest

NAME = "kubernetes.io/local-volume"
Warn = Callable[[Pod, str, str], None]


@dataclass(frozen=True, slots=True)
class Local:
    """``root`` is the kubelet's; ``local_paths`` holds the directories of the cluster's own provisioner, if there is one."""

    root: Path
    runner: Runner
    local_paths: Path | None = None
    warn: Warn = field(default=lambda pod, reason, note: None)
    name: str = NAME
    refreshes: bool = False

    @property
    def shared(self) -> Path:
        """Where disks are mounted for the whole node, one folder per PersistentVolume."""
        return self.root / "plugins" / self.name / "mounts"

    async def set_up(self, request: VolumeRequest) -> Mount:
        path = str(request.source.get("path") or "")
        if not path or ".." in path.split("/"):
            raise VolumeError("local volume: path must be given and must not contain '..'")
        persistent = request.persistent
        assert persistent is not None
        if self.local_paths is not None and names.is_ours(persistent.volume):
            await asyncio.to_thread(local_path.make, self.local_paths, path)
        mode = await asyncio.to_thread(_mode_of, path)
        if persistent.is_block:
            if not stat.S_ISBLK(mode):
                raise VolumeError(f"path {path} for local volume with volumeMode Block is not a block device")
            return Mount(await asyncio.to_thread(Path(path).resolve), request.read_only, is_file=True, is_block=True)
        if stat.S_ISBLK(mode):
            disk = self.shared / persistent.name
            fs_type, options = str(request.source.get("fsType") or ""), request.mount_options
            await filesystem.mount_device(self.runner, path, disk, fs_type, options, read_only=request.read_only)
            path = str(disk)
        elif not stat.S_ISDIR(mode):
            raise VolumeError(f"path {path} for local volume is neither a directory nor a block device")
        if note := await asyncio.to_thread(self._bind, request, path):
            self.warn(request.pod, "AlreadyMountedVolume", note)
        return Mount(request.directory, request.read_only)

    def _bind(self, request: VolumeRequest, path: str) -> str:
        """Bind, and give the volume to the pod's group if no other pod has it; what there is to say about that."""
        directory, group = request.directory, request.fs_group
        if mounts.mounted_as(directory) is not None:  # ismount does not see binds within one file system
            return ""
        shared = self._is_mounted_elsewhere(directory)
        directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        mounts.bind(path, str(directory))
        if request.read_only:
            mounts.mount("", str(directory), flags=mounts.MS_BIND | mounts.MS_REMOUNT | mounts.MS_RDONLY)
        elif group is not None and not shared:
            ownership.set_group(directory, group, read_only=False, on_root_mismatch=request.fs_group_on_root_mismatch)
        elif group is not None and (held := os.stat(directory).st_gid) != group:
            text = f"The requested fsGroup is {group}, but the volume {request.name} has GID {held}."
            return f"{text} The volume may not be shareable."
        return ""

    def _is_mounted_elsewhere(self, directory: Path) -> bool:
        """Whether another pod of this node uses the volume: its group is theirs for so long."""
        tail = f"/{directory.parents[1].name}/{directory.parent.name}/{directory.name}"
        return any(point.endswith(tail) for point, _ in mounts.mount_points(os.path.realpath(self.root / "pods")))

    async def sweep(self) -> None:
        """Unmount disks that no pod uses any more."""
        await asyncio.to_thread(_unmount_unused, self.shared, self.root / "pods")


def _mode_of(path: str) -> int:
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        raise VolumeError(f'path "{path}" does not exist') from None


def _unmount_unused(shared: Path, pods: Path) -> None:
    if not shared.is_dir() or not any(shared.iterdir()):
        return  # the kernel takes long to list the mounts of a full node
    held = {point: device for point, device in mounts.devices(str(shared)) if Path(point).parent == shared}
    if not held:
        return
    used = {device for _, device in mounts.devices(os.path.realpath(pods))}
    for point, device in held.items():
        if device not in used:
            mounts.unmount(Path(point))
            os.rmdir(point)

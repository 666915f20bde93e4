"""hostPath: a path of the node itself, after the check (or creation) that its ``type`` asks for."""

import asyncio
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from node.kubelet.interface import Mount, VolumeError
from node.kubelet.volumes.contract import VolumeRequest

_Check = Callable[[int], bool]
_CHECKS: dict[str, tuple[_Check, str]] = {
    "Directory": (stat.S_ISDIR, "a directory"),
    "DirectoryOrCreate": (stat.S_ISDIR, "a directory"),
    "File": (stat.S_ISREG, "a file"),
    "FileOrCreate": (stat.S_ISREG, "a file"),
    "Socket": (stat.S_ISSOCK, "a socket file"),
    "CharDevice": (stat.S_ISCHR, "a character device"),
    "BlockDevice": (stat.S_ISBLK, "a block device"),
}


@dataclass(frozen=True, slots=True)
class HostPath:
    name: str = "kubernetes.io/host-path"
    refreshes: bool = False

    async def set_up(self, request: VolumeRequest) -> Mount:
        path = str(request.source["path"])
        return await asyncio.to_thread(_prepare, path, str(request.source.get("type") or ""))


def _prepare(path: str, kind: str) -> Mount:
    if ".." in path.split("/"):
        raise VolumeError("hostPath: path must not contain '..'")
    if kind and kind not in _CHECKS:
        raise VolumeError(f"{kind} is an invalid volume type")
    if kind == "DirectoryOrCreate" and not os.path.exists(path):
        os.makedirs(path, 0o755, exist_ok=True)
    if kind == "FileOrCreate" and not os.path.exists(path):
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    try:
        mode = os.stat(path).st_mode
    except OSError:
        if not kind:
            return Mount(Path(path))  # unchecked: the runtime makes a missing directory
        raise VolumeError(f"hostPath type check failed: {path} is not {_CHECKS[kind][1]}") from None
    if kind:
        right, what = _CHECKS[kind]
        if not right(mode):
            raise VolumeError(f"hostPath type check failed: {path} is not {what}")
    return Mount(Path(path), is_file=not stat.S_ISDIR(mode))

"""A directory of generated files: made as an emptyDir (on tmpfs for what must not reach a disk), filled atomically.

The common part of the configMap, secret, projected and downwardAPI plugins.
"""

import asyncio
import os
from datetime import datetime
from pathlib import Path

from node.kubelet.interface import Mount
from node.kubelet.volumes import atomic, mounts, ownership
from node.kubelet.volumes.contract import VolumeRequest


def make_directory(path: Path, mode: int) -> None:
    """``path`` as a directory with exactly ``mode``; its parents 0750, as upstream's."""
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    path.mkdir(exist_ok=True)
    os.chmod(path, mode)


def make_tmpfs(path: Path, mode: int, options: str = "", kind: str = "tmpfs") -> bool:
    """A tmpfs (or hugetlbfs) at ``path``, once: after a restart of the kubelet the one that is there stays. True if it is new."""
    if os.path.ismount(path):
        return False
    make_directory(path, mode)
    mounts.mount("tmpfs" if kind == "tmpfs" else "nodev", str(path), kind, 0, ",".join(filter(None, [f"mode={mode:o}", options])))
    return True


async def publish(request: VolumeRequest, payload: atomic.Payload, now: datetime, *, memory: bool) -> Mount:
    """Write ``payload`` and answer the mount for containers."""
    await asyncio.to_thread(_publish, request, payload, now, memory)
    return Mount(request.directory, read_only=True)


def _publish(request: VolumeRequest, payload: atomic.Payload, now: datetime, memory: bool) -> None:
    if memory:
        make_tmpfs(request.directory, 0o777)
    elif not request.directory.is_dir():
        make_directory(request.directory, 0o777)
    group = request.fs_group
    finish = None if group is None else lambda directory: ownership.set_group_at(directory, group, read_only=True)
    atomic.write(request.directory, payload, now=now, finish=finish)
    if group is not None:
        os.chown(request.directory, -1, group)

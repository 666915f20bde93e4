"""A file system on a block device: found or made, and mounted, as upstream's ``FormatAndMount``. Called by plugins.

The tools (blkid, mkfs) are the system's. A device is formatted only when blkid finds nothing at all on it.
"""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from component.process import ProcessError, Runner
from node.kubelet.interface import VolumeError
from node.kubelet.volumes import mounts

_DEFAULT = "ext4"
_NOTHING_FOUND = 2
_FORMAT_SECONDS = 300.0
_OPTIONS = {"ext4": ["-F", "-m0"], "ext3": ["-F", "-m0"], "xfs": ["-f"]}
_FLAGS = {
    "ro": mounts.MS_RDONLY,
    "nosuid": mounts.MS_NOSUID,
    "nodev": mounts.MS_NODEV,
    "noexec": mounts.MS_NOEXEC,
    "sync": 16,
    "dirsync": 128,
    "noatime": 1024,
    "nodiratime": 2048,
    "relatime": 1 << 21,
    "strictatime": 1 << 24,
}


async def mount_device(
    runner: Runner, device: str, target: Path, fs_type: str, options: Sequence[str], *, read_only: bool
) -> None:
    """Mount ``device`` at ``target``, formatted first if it is empty. Nothing happens if something is mounted there."""
    if await asyncio.to_thread(os.path.ismount, target):
        return
    held = await detect(runner, device)
    wanted = fs_type or _DEFAULT
    if not held:
        if read_only:
            raise VolumeError(f"cannot mount unformatted disk {device} as we are manipulating it in read-only mode")
        try:
            await runner.run([f"mkfs.{wanted}", *_OPTIONS.get(wanted, []), device], timeout=_FORMAT_SECONDS)
        except ProcessError as error:
            raise VolumeError(f"format of disk {device} failed: type:({wanted}): {error}") from error
        held = wanted
    elif held != wanted:
        raise VolumeError(f"failed to mount the volume as {wanted}: {device} already contains {held}")
    flags, data = split_options([*options, *(["ro"] if read_only else [])])
    await asyncio.to_thread(_mount, device, target, held, flags, data)


async def detect(runner: Runner, device: str) -> str:
    """The type of file system on a device; ``unknown data`` for partitions and the like; empty for nothing."""
    try:
        answer = await runner.run(["blkid", "-p", "-s", "TYPE", "-s", "PTTYPE", "-o", "export", device], check=False)
    except ProcessError as error:
        raise VolumeError(f"disk {device} cannot be examined: {error}") from error
    if answer.returncode == _NOTHING_FOUND:
        return ""
    if answer.returncode != 0:
        raise VolumeError(f"disk {device} cannot be examined: blkid ended with {answer.returncode}")
    found = dict(line.split("=", 1) for line in answer.stdout.decode(errors="replace").splitlines() if "=" in line)
    return found.get("TYPE") or "unknown data, probably partitions"


def split_options(options: Sequence[str]) -> tuple[int, str]:
    """(flags, data) of mount(2) from the words of mount(8); ``rw`` and ``defaults`` mean nothing. Pure."""
    flags, data = 0, []
    for word in options:
        if word in _FLAGS:
            flags |= _FLAGS[word]
        elif word not in ("rw", "defaults", "bind", ""):
            data.append(word)
    return flags, ",".join(data)


def _mount(device: str, target: Path, kind: str, flags: int, data: str) -> None:
    target.mkdir(mode=0o750, parents=True, exist_ok=True)
    mounts.mount(device, str(target), kind, flags, data)

"""subPath: bind one file or directory of a volume, though a container may be swapping links in it at this moment.

Upstream's defence (CVE-2017-1002101, CVE-2021-25741): resolve the path, require that it stays inside the volume, walk to
it again without following any link, and bind the very file that was opened, through ``/proc/self/fd``. The bind mount,
not the path, is what the runtime gets. Called by ``manager.py`` in a thread.
"""

import os
import stat
from pathlib import Path

from node.kubelet.interface import Mount, VolumeError
from node.kubelet.volumes import mounts

_LARGEST_READ = 1 << 20
_PATH = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def prepare(mount: Mount, path: str, target: Path) -> Path:
    """Bind ``path`` inside the volume at ``target`` and return ``target``. A missing path becomes a directory."""
    if path.startswith("/") or ".." in path.split("/"):
        raise VolumeError(f"subPath must be a relative path inside the volume: {path}")
    if mount.is_file:
        raise VolumeError(f"subPath {path} cannot be used: the volume is a file, not a directory")
    volume = os.path.realpath(mount.host_path)
    if not os.path.lexists(os.path.join(volume, path)):
        _make_directories(volume, path)
    found = _open_inside(volume, path)
    try:
        _bind(found, target)
    finally:
        os.close(found)
    return target


def read(mount: Mount, path: str) -> bytes | None:
    """The content of a regular file inside the volume, of a megabyte at most; None if it is not there. Raises VolumeError."""
    volume = os.path.realpath(mount.host_path)
    if not os.path.exists(os.path.join(volume, path)):
        return None
    found = _open_inside(volume, path)
    try:
        held = os.fstat(found)
        if not stat.S_ISREG(held.st_mode):
            raise VolumeError(f"{path} is not a regular file")
        if held.st_size > _LARGEST_READ:
            raise VolumeError(f"{path} is larger than {_LARGEST_READ} bytes")
        with open(f"/proc/self/fd/{found}", "rb") as file:
            return file.read(_LARGEST_READ)
    finally:
        os.close(found)


def _open_inside(volume: str, path: str) -> int:
    """An O_PATH descriptor of what ``path`` means now, reached by real directories only."""
    try:
        real = os.path.realpath(os.path.join(volume, path))
    except OSError as error:  # a link that was none any more when it was read
        raise VolumeError(f"subPath {path} changed while it was resolved: {error.strerror}") from error
    if real != volume and not real.startswith(volume.rstrip("/") + "/"):
        raise VolumeError(f"subPath {path} leads outside of the volume")
    here = os.open(volume, _PATH | os.O_DIRECTORY)
    for part in os.path.relpath(real, volume).split("/"):
        if part == ".":
            continue
        try:
            following = os.open(part, _PATH, dir_fd=here)
        except OSError as error:
            raise VolumeError(f"subPath {path} cannot be opened: {error.strerror}") from error
        finally:
            os.close(here)
        here = following
        if stat.S_ISLNK(os.fstat(here).st_mode):
            os.close(here)
            raise VolumeError(f"subPath {path} changed into a symbolic link while it was opened")
    return here


def _make_directories(volume: str, path: str) -> None:
    """Create the missing directories with the volume's own mode, link by link checked as above."""
    mode = stat.S_IMODE(os.stat(volume).st_mode)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    for depth in range(len(parts)):
        parent = _open_inside(volume, "/".join(parts[:depth]) or ".")
        try:
            if not _exists_at(parent, parts[depth]):
                _make_directory(parent, parts[depth], mode)
        finally:
            os.close(parent)


def _exists_at(parent: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise VolumeError(f"subPath cannot be created: {error.strerror}") from error
    return True


def _make_directory(parent: int, name: str, mode: int) -> None:
    owner = os.fstat(parent)
    os.mkdir(name, 0o700, dir_fd=parent)
    made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        if owner.st_mode & stat.S_ISGID:  # fsGroup goes down with the directories
            os.fchown(made, -1, owner.st_gid)
        os.fchmod(made, mode)
    finally:
        os.close(made)


def _bind(found: int, target: Path) -> None:
    there = os.fstat(found)
    if mounts.mounted_as(target) is not None:
        now = os.stat(target, follow_symlinks=False)
        if (now.st_dev, now.st_ino) == (there.st_dev, there.st_ino):
            return
        mounts.unmount(target)  # a container that starts again gets what the path means now
    target.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    if stat.S_ISDIR(there.st_mode):
        if target.exists() and not target.is_dir():
            target.unlink()
        target.mkdir(exist_ok=True)
    else:
        if target.is_dir():
            target.rmdir()
        target.touch()
    mounts.bind(f"/proc/self/fd/{found}", str(target))

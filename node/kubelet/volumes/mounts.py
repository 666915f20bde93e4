"""The kernel's mounts: read (``component.mountinfo``), mount, unmount, and delete a tree without leaving it.

Everything here blocks; the plugins and the manager call it in a thread. libc is called directly: a ``mount`` process
for each volume would cost 2 ms and a fork of a large process.
"""

import ctypes
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from component import mountinfo

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC = 1, 2, 4, 8, 32, 4096, 16384
MNT_DETACH, UMOUNT_NOFOLLOW = 2, 8


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """mount(2). Raises OSError that names the target."""
    libc = ctypes.CDLL(None, use_errno=True)
    data = options.encode() if options else None
    _check(libc.mount(source.encode(), os.fsencode(target), kind.encode() or None, flags, data), f"mount {target}")


def bind(source: str, target: str) -> None:
    """Show ``source`` at ``target`` as well, without what is mounted below it."""
    mount(source, target, flags=MS_BIND)


def unmount(target: Path) -> None:
    """Unmount what is at ``target``, at once or, when a process still holds it, as soon as that ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    path = os.fsencode(target)
    if libc.umount2(path, UMOUNT_NOFOLLOW) != 0:
        _check(libc.umount2(path, UMOUNT_NOFOLLOW | MNT_DETACH), f"unmount {target}")


def mount_points(within: str = "/") -> list[tuple[str, str]]:
    """Mounts at or below the real path ``within`` as (mount point, file system type), in mount order."""
    return [(mount.point, mount.kind) for mount in mountinfo.read(within)]


def devices(within: str) -> list[tuple[str, str]]:
    """Mounts at or below ``within`` as (mount point, major:minor of what is mounted)."""
    return [(mount.point, mount.device) for mount in mountinfo.read(within)]


def mounted_as(path: Path) -> str | None:
    """The file system type mounted exactly at ``path``, the topmost one; None when it is no mount point."""
    real = os.path.realpath(path)
    return next((kind for point, kind in reversed(mount_points(real)) if point == real), None)


def mounts_below(path: Path) -> list[Path]:
    """Mount points at or below ``path``, the last mounted first, which is the order to undo them in."""
    return [Path(point) for point, _ in reversed(mount_points(os.path.realpath(path)))]


def unmount_below(path: Path) -> None:
    """Unmount everything at and below ``path``. Raises OSError if something will not go."""
    points = mounts_below(path)
    for point in points:
        unmount(point)
    if points and (left := mounts_below(path)):
        raise OSError(f"still mounted below {path}: {', '.join(map(str, left))}")


def remove_tree(path: Path) -> None:
    """Delete a directory tree, never following a link and never entering another mount. Missing is fine.

    Raises OSError when a mount is found: deleting what an unmount left behind would delete somebody's data.
    """
    if left := mounts_below(path):
        raise OSError(f"not deleted, for it is a mount: {left[0]}")
    _remove(path)


def clear(directory: Path, names: Sequence[str]) -> None:
    """Unmount and delete the entries ``names`` of ``directory``, in this order. One look at the mounts serves them all,
    because the kernel takes long to list many. Raises OSError as the two above, before anything is deleted."""
    real = os.path.realpath(directory)
    tops = [f"{real}/{name}" for name in names]
    points = _inside(real, tops)
    for point in points:
        unmount(Path(point))
    if points and (left := _inside(real, tops)):
        raise OSError(f"still mounted: {', '.join(left)}")
    for name in names:
        _remove(directory / name)


def _inside(real: str, tops: Sequence[str]) -> list[str]:
    """Mount points at or below each of ``tops``, in their order, the last mounted first."""
    points = [point for point, _ in reversed(mount_points(real))]
    return [point for top in tops for point in points if point == top or point.startswith(top + "/")]


def _remove(path: Path) -> None:
    try:
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        _remove_at(parent, path.name, os.stat(parent).st_dev)
    finally:
        os.close(parent)


def _remove_at(parent: int, name: str, device: int) -> None:
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode):
        os.unlink(name, dir_fd=parent)
        return
    if found.st_dev != device:  # a mount that appeared after the check
        raise OSError(f"not deleted, for it lies on another file system: {name}")
    here = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        for child in os.listdir(here):
            _remove_at(here, child, device)
    finally:
        os.close(here)
    os.rmdir(name, dir_fd=parent)


def walk_no_links(top: int) -> Iterator[tuple[int, str, os.stat_result]]:
    """Every entry below the directory ``top`` as (descriptor of its parent, name, lstat), parents first."""
    for name in os.listdir(top):
        found = os.stat(name, dir_fd=top, follow_symlinks=False)
        yield top, name, found
        if stat.S_ISDIR(found.st_mode):
            here = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
            try:
                yield from walk_no_links(here)
            finally:
                os.close(here)

"""fsGroup: give a volume to a group, as upstream does. Called by plugins in a thread, after content is written."""

import os
import stat
from pathlib import Path

from node.kubelet.volumes import mounts

_READ_WRITE, _READ_ONLY, _EXECUTE = 0o660, 0o440, 0o110


def set_group(directory: Path, group: int, *, read_only: bool, on_root_mismatch: bool = False) -> None:
    """Chown everything in ``directory`` to ``group`` and open it for the group; directories hand the group on (setgid)."""
    top = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        set_group_at(top, group, read_only=read_only, on_root_mismatch=on_root_mismatch)
    finally:
        os.close(top)


def set_group_at(top: int, group: int, *, read_only: bool, on_root_mismatch: bool = False) -> None:
    """The same, from an open directory. The top comes last, so that an interrupted run is seen as a mismatch."""
    root = os.fstat(top)
    wanted = _mode(root, read_only)
    if on_root_mismatch and root.st_gid == group and stat.S_IMODE(root.st_mode) == wanted:
        return
    for parent, name, found in mounts.walk_no_links(top):
        os.chown(name, -1, group, dir_fd=parent, follow_symlinks=False)
        if not stat.S_ISLNK(found.st_mode):
            _chmod_at(parent, name, _mode(found, read_only))
    os.fchown(top, -1, group)
    os.fchmod(top, wanted)


def _chmod_at(parent: int, name: str, mode: int) -> None:
    # chmod has no flag against following links on Linux; an O_PATH descriptor names the very file instead.
    file = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        if not stat.S_ISLNK(os.fstat(file).st_mode):
            os.chmod(f"/proc/self/fd/{file}", mode)
    finally:
        os.close(file)


def _mode(found: os.stat_result, read_only: bool) -> int:
    mode = stat.S_IMODE(found.st_mode) | (_READ_ONLY if read_only else _READ_WRITE)
    return mode | _EXECUTE | stat.S_ISGID if stat.S_ISDIR(found.st_mode) else mode

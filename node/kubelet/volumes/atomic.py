"""Write a set of files so that readers see the old set or the new one, never a mixture.

The layout is upstream's, because programs watch it: files live in a directory ``..<time>``, ``..data`` is a link to it,
and each visible name is a link through ``..data``. A new set is a new directory and one rename of ``..data``. Called by
the configMap, secret, projected and downwardAPI plugins in a thread.
"""

import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from node.kubelet.interface import VolumeError
from node.kubelet.volumes import mounts

_DATA, _NEW_DATA = "..data", "..data_tmp"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class File:
    """Content and permissions of one projected file; ``owner`` None leaves it to root."""

    content: bytes
    mode: int
    owner: int | None = None


Payload = Mapping[str, File]


def check_path(path: str) -> None:
    """Raises VolumeError for a path that would leave the volume or meet the writer's own names."""
    parts = path.split("/")
    if not path or path.startswith("/"):
        raise VolumeError(f"invalid path: must be relative path: {path}")
    if ".." in parts:
        raise VolumeError(f"invalid path: must not contain '..': {path}")
    if parts[0].startswith(".."):
        raise VolumeError(f"invalid path: must not start with '..': {path}")
    if len(path) > 4096 or any(len(part.encode()) > 255 for part in parts):
        raise VolumeError(f"invalid path: must be less than or equal to 4096 characters, 255 per element: {path[:64]}")


def write(target: Path, payload: Payload, *, now: datetime, finish: Callable[[int], None] | None = None) -> bool:
    """Make ``target`` hold exactly ``payload``; False if it already did.

    ``finish`` gets the descriptor of the new directory before it becomes visible, to set owners.
    """
    for path in payload:
        check_path(path)
    top = os.open(target, _DIRECTORY)
    try:
        old = _readlink(top, _DATA)
        if old is not None and _holds(top, old, payload):
            _link_visible(top, payload)
            return False
        new = _write_new(top, payload, now, finish)
        _swap(top, new)
        _link_visible(top, payload)
        _drop_stale(target, top, payload, keep=new)
    finally:
        os.close(top)
    return True


def _readlink(top: int, name: str) -> str | None:
    try:
        return os.readlink(name, dir_fd=top)
    except OSError:
        return None


def _holds(top: int, current: str, payload: Payload) -> bool:
    """Whether the live directory already has these very files with these contents, modes and owners."""
    try:
        live = os.open(current, _DIRECTORY, dir_fd=top)
    except OSError:
        return False
    try:
        names = set(_files_below(live))
        return names == payload.keys() and all(_same(live, path, file) for path, file in payload.items())
    finally:
        os.close(live)


def _files_below(top: int, prefix: str = "") -> list[str]:
    found = []
    for name in os.listdir(top):
        if stat.S_ISDIR(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode):
            here = os.open(name, _DIRECTORY, dir_fd=top)
            try:
                found += _files_below(here, f"{prefix}{name}/")
            finally:
                os.close(here)
        else:
            found.append(prefix + name)
    return found


def _same(live: int, path: str, file: File) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=live)
    except OSError:
        return False
    with os.fdopen(descriptor, "rb") as opened:
        found = os.fstat(descriptor)
        # fsGroup may have added group bits after the write, so only the asked bits must be there.
        right = stat.S_IMODE(found.st_mode) & file.mode == file.mode and (file.owner is None or found.st_uid == file.owner)
        return right and found.st_size == len(file.content) and opened.read() == file.content


def _write_new(top: int, payload: Payload, now: datetime, finish: Callable[[int], None] | None) -> str:
    name = _fresh_directory(top, now)
    here = os.open(name, _DIRECTORY, dir_fd=top)
    try:
        os.fchmod(here, 0o755)
        for path, file in payload.items():
            _write_file(here, path, file)
        if finish is not None:
            finish(here)
    finally:
        os.close(here)
    return name


def _fresh_directory(top: int, now: datetime) -> str:
    stem = now.astimezone(UTC).strftime("..%Y_%m_%d_%H_%M_%S.%f")
    for attempt in range(1000):
        name = f"{stem}{attempt:03}"
        try:
            os.mkdir(name, 0o755, dir_fd=top)
        except FileExistsError:
            continue
        return name
    raise VolumeError(f"no free name for {stem}: remove left-over directories from the volume")


def _write_file(here: int, path: str, file: File) -> None:
    *parents, _ = path.split("/")
    for depth in range(1, len(parents) + 1):
        directory = "/".join(parents[:depth])
        try:
            os.mkdir(directory, 0o755, dir_fd=here)
            _chmod(here, directory, 0o755)
        except FileExistsError:
            continue
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, file.mode, dir_fd=here)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(file.content)
        os.fchmod(descriptor, file.mode)  # the umask had its say at open
        if file.owner is not None:
            os.fchown(descriptor, file.owner, -1)


def _chmod(here: int, directory: str, mode: int) -> None:
    descriptor = os.open(directory, _DIRECTORY, dir_fd=here)
    try:
        os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


def _swap(top: int, new: str) -> None:
    if _readlink(top, _NEW_DATA) is not None:
        os.unlink(_NEW_DATA, dir_fd=top)
    os.symlink(new, _NEW_DATA, dir_fd=top)
    os.rename(_NEW_DATA, _DATA, src_dir_fd=top, dst_dir_fd=top)


def _visible(payload: Payload) -> set[str]:
    return {path.split("/", 1)[0] for path in payload}


def _link_visible(top: int, payload: Payload) -> None:
    for name in _visible(payload):
        if _readlink(top, name) is None:
            os.symlink(f"{_DATA}/{name}", name, dir_fd=top)


def _drop_stale(target: Path, top: int, payload: Payload, *, keep: str) -> None:
    visible = _visible(payload)
    for name in os.listdir(top):
        if name in (_DATA, keep) or name in visible:
            continue
        if name.startswith("..2"):
            mounts.remove_tree(target / name)
        elif (_readlink(top, name) or "").startswith(f"{_DATA}/"):
            os.unlink(name, dir_fd=top)

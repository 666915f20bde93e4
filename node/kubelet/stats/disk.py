"""How much disk a folder takes, as ``du`` counts: allocated blocks, hard links once, no other file system. Blocks; call it in a
thread. Pods write into these folders: nothing is opened through a symbolic link, and files may vanish under the count."""

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DiskUsed:
    """Bytes and inodes."""

    bytes: int = 0
    inodes: int = 0

    def __add__(self, other: "DiskUsed") -> "DiskUsed":
        return DiskUsed(self.bytes + other.bytes, self.inodes + other.inodes)


def disk_used(path: str | os.PathLike[str]) -> DiskUsed:
    """Of a folder with everything below, or of one file; nothing for what is not there."""
    try:
        top = os.lstat(path)
    except OSError:
        return DiskUsed()
    total, count = top.st_blocks * 512, 1
    linked: set[int] = set()
    folders = [os.fspath(path)] if os.path.isdir(path) and not os.path.islink(path) else []
    while folders:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:
            continue
        for entry in entries:
            try:
                facts = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if facts.st_dev != top.st_dev or facts.st_ino in linked:
                continue
            if facts.st_nlink > 1 and not entry.is_dir(follow_symlinks=False):
                linked.add(facts.st_ino)
            total += facts.st_blocks * 512
            count += 1
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
    return DiskUsed(total, count)

"""What the node has left: one :class:`Observation` per signal, read from the kernel. ``manager`` calls it every ten seconds.

All reads block for microseconds and are made in one thread call. A signal that cannot be read is left out: nothing is
evicted on a guess.
"""

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from node.kubelet.eviction import thresholds as t

_CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class Observation:
    """Bytes, inodes or processes."""

    available: int
    capacity: int


Observations = Mapping[str, Observation]


@dataclass(frozen=True, slots=True)
class Places:
    """Where to look. ``image_fs`` is the runtime's own file system; ``pods_working_set`` what all pods use together and
    ``allocatable_memory`` what they may (bytes; 0: nobody bounds them)."""

    root_dir: Path
    image_fs: Callable[[], Path | None] = lambda: None
    pods_working_set: Callable[[], int | None] = lambda: None
    allocatable_memory: Callable[[], int] = lambda: 0
    cgroup: Path = _CGROUP
    proc: Path = Path("/proc")


def read(places: Places) -> dict[str, Observation]:
    """Every signal that this machine can tell."""
    found: dict[str, Observation] = {}
    with contextlib.suppress(OSError, ValueError, KeyError, IndexError):
        found[t.MEMORY] = memory((places.proc / "meminfo").read_text(), root_working_set(places.cgroup))
    limit, used = places.allocatable_memory(), places.pods_working_set()
    if limit and used is not None:
        found[t.ALLOCATABLE_MEMORY] = Observation(max(0, limit - used), limit)
    with contextlib.suppress(OSError, ValueError, IndexError):
        found[t.PID] = processes(
            (places.proc / "sys/kernel/pid_max").read_text(),
            (places.proc / "sys/kernel/threads-max").read_text(),
            (places.proc / "loadavg").read_text(),
        )
    with contextlib.suppress(OSError):
        found[t.NODEFS], found[t.NODEFS_INODES] = filesystem(places.root_dir)
    image_fs = places.image_fs()
    if image_fs is not None:
        with contextlib.suppress(OSError):
            found[t.IMAGEFS], found[t.IMAGEFS_INODES] = filesystem(image_fs)
            found[t.CONTAINERFS], found[t.CONTAINERFS_INODES] = found[t.IMAGEFS], found[t.IMAGEFS_INODES]
    return found


def memory(meminfo: str, working_set: int | None = None) -> Observation:
    """Capacity less the working set: what the root cgroup uses without inactive file pages, as upstream counts. Where it does
    not say, the same from ``/proc/meminfo``. Raises KeyError on a text without MemTotal and MemFree."""
    values = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in meminfo.splitlines() if ":" in line}
    total = values["MemTotal"]
    if working_set is None:
        working_set = max(0, total - values["MemFree"] - values.get("Inactive(file)", 0) - values.get("SReclaimable", 0))
    return Observation(max(0, total - working_set), total)


def root_working_set(cgroup: Path) -> int | None:
    """cgroup v1's root counts; of cgroup v2's root it is known what is anonymous and what are file pages."""
    if (cgroup / "cgroup.controllers").exists():
        try:
            stat = dict(line.split(" ", 1) for line in (cgroup / "memory.stat").read_text().splitlines())
            return max(0, int(stat["anon"]) + int(stat["file"]) - int(stat["inactive_file"]))
        except (OSError, ValueError, KeyError):
            return None
    return working_set(cgroup / "memory", "memory.usage_in_bytes", "total_inactive_file")


def pods_working_set(cgroup: Path, path: str) -> int | None:
    """Of the cgroup that holds all pods, such as ``/kubepods``; None if there is none."""
    below = path.strip("/")
    if (cgroup / "cgroup.controllers").exists():
        return working_set(cgroup / below, "memory.current", "inactive_file")
    return working_set(cgroup / "memory" / below, "memory.usage_in_bytes", "total_inactive_file")


def working_set(folder: Path, usage: str, inactive: str) -> int | None:
    """Bytes in use less the file pages that the kernel would give up first; None where the cgroup does not say."""
    try:
        used = int((folder / usage).read_text())
        stat = dict(line.split(" ", 1) for line in (folder / "memory.stat").read_text().splitlines())
        return max(0, used - int(stat.get(inactive, 0)))
    except (OSError, ValueError):
        return None


def processes(pid_max: str, threads_max: str, loadavg: str) -> Observation:
    """The smaller of both limits, less the threads that exist (``1/234`` of loadavg)."""
    limit = min(int(pid_max), int(threads_max))
    running = int(loadavg.split()[3].partition("/")[2])
    return Observation(max(0, limit - running), limit)


def filesystem(path: Path) -> tuple[Observation, Observation]:
    """(bytes, inodes) that an ordinary user may still take of the file system at ``path``. A file system without a fixed
    number of inodes never lacks them. Raises OSError."""
    facts = os.statvfs(path)
    space = Observation(facts.f_bavail * facts.f_frsize, facts.f_blocks * facts.f_frsize)
    if facts.f_files == 0:
        return space, Observation(1, 1)
    return space, Observation(facts.f_ffree, facts.f_files)


def dedicated_image_fs(root_dir: Path, image_fs: Path | None) -> bool:
    """Images live on a file system of their own: then pods' logs and volumes do not fill it, nor images the node's."""
    with contextlib.suppress(OSError):
        return image_fs is not None and os.stat(root_dir).st_dev != os.stat(image_fs).st_dev
    return False

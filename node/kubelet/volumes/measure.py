"""How full a volume is: by counting what is in a folder, or by asking its file system. Blocks; called in a thread."""

import os
from pathlib import Path

from node.kubelet.interface import VolumeStats
from node.kubelet.stats.disk import disk_used


def of_folder(path: Path, name: str, claim: tuple[str, str] | None = None) -> VolumeStats:
    """What a folder takes, on a file system that it shares with others (upstream's ``MetricsDu``)."""
    used, whole = disk_used(path), of_file_system(path, name, claim)
    return VolumeStats(name, claim, whole.capacity, whole.available, used.bytes, whole.inodes, whole.inodes_free, used.inodes)


def of_file_system(path: Path, name: str, claim: tuple[str, str] | None = None) -> VolumeStats:
    """What the file system says (upstream's ``MetricsStatFS``)."""
    found = os.statvfs(path)
    size = found.f_frsize
    return VolumeStats(
        name,
        claim,
        capacity=found.f_blocks * size,
        available=found.f_bavail * size,
        used=(found.f_blocks - found.f_bfree) * size,
        inodes=found.f_files,
        inodes_free=found.f_ffree,
        inodes_used=found.f_files - found.f_ffree,
    )

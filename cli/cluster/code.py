"""Which code a daemon runs: `up` replaces a daemon that was started from other sources than it would be started from now."""

import hashlib
import os
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

PACKAGES = ("apimachinery", "component", "client", "cri", "controlplane", "node", "netproxy", "bootstrap", "cli")


@cache
def fingerprint() -> str:
    """Of this program and of the libraries beside it: equal if and only if a daemon started now would run the same code."""
    return digest(Path(__file__).parents[2], PACKAGES, installed(sys.path))


def installed(folders: Iterable[str]) -> list[str]:
    """Name and version of every installed library, as the names of its metadata folders give them."""
    return sorted(
        name for folder in folders if os.path.isdir(folder) for name in os.listdir(folder) if name.endswith(".dist-info")
    )


def digest(root: Path, packages: Iterable[str], libraries: Iterable[str]) -> str:
    """16 hexadecimal digits over names, sizes and modification times of all modules below ``root``, and over ``libraries``.

    Contents are not read: an editor, a checkout and a package manager each move the time, and `up` should not wait for a disk.
    """
    seen = hashlib.sha256("\n".join(libraries).encode())
    for package in packages:
        for folder, below, files in os.walk(root / package):
            below.sort()
            for name in sorted(files):
                if name.endswith((".py", ".json")):
                    facts = os.stat(os.path.join(folder, name))
                    seen.update(f"{folder[len(str(root)) :]}/{name} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return seen.hexdigest()[:16]

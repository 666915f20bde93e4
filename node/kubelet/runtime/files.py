"""The files the kubelet itself puts into containers: ``/etc/hosts``, the termination log, the log directories.

All functions block: ``containers`` calls them in a thread.
"""

import os
import re
import secrets
import shutil
import stat
from pathlib import Path
from typing import BinaryIO

_ATTEMPT = re.compile(r"(\d+)\.log(?:\..*)?")


def open_regular(path: Path) -> BinaryIO:
    """A file to read that somebody else may have put there: no link is followed, no pipe waited for. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a regular file")
    return os.fdopen(descriptor, "rb")


def write_hosts_file(pod_dir: Path, text: str) -> Path:
    """``etc-hosts`` in the pod's directory, replaced in place: running containers have it bound by inode."""
    path = pod_dir / "etc-hosts"
    with path.open("w") as file:
        os.fchmod(file.fileno(), 0o644)
        file.write(text)
    return path


def termination_log(pod_dir: Path, container: str) -> Path:
    """A fresh, empty file that the container may write whoever it runs as."""
    folder = pod_dir / "containers" / container
    folder.mkdir(parents=True, exist_ok=True, mode=0o750)
    path = folder / secrets.token_hex(4)
    path.touch()
    path.chmod(0o666)
    return path


def make_pod_dirs(pod_dir: Path) -> None:
    for folder in (pod_dir, pod_dir / "volumes", pod_dir / "plugins"):
        folder.mkdir(parents=True, exist_ok=True, mode=0o750)


def make_log_dir(pod_logs: Path, container: str) -> int:
    """Make the log directory of a container; how many instances logged there before (from the numbers of the files).

    When the runtime has forgotten a container, its logs still tell how often it was restarted.
    """
    folder = pod_logs / container
    folder.mkdir(parents=True, exist_ok=True, mode=0o755)
    numbers = [int(match[1]) for entry in folder.iterdir() if (match := _ATTEMPT.fullmatch(entry.name))]
    return max(numbers) + 1 if numbers else 0


def remove_logs(pod_logs: Path, container: str, attempt: int) -> None:
    """The log of one gone instance, rotated files included."""
    folder = pod_logs / container
    if folder.is_dir():
        for entry in folder.iterdir():
            if (match := _ATTEMPT.fullmatch(entry.name)) and int(match[1]) == attempt:
                entry.unlink(missing_ok=True)


def remove_tree(path: Path) -> None:
    """A directory of files that containers cannot have mounted anything into; links are not followed."""
    shutil.rmtree(path, ignore_errors=True)

"""Sockets that the kubelet serves for agents and plugins of its node: only sockets are taken for sockets."""

import contextlib
import os
import stat
from pathlib import Path


def is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


def clear_sockets(folder: Path) -> None:
    """Remove every socket directly in the folder, nothing else; the folder is made if it is not there. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o750)
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
                    os.unlink(entry.path)

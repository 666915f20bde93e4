"""The last words of a container: its termination message, from the file it wrote or the end of its log.

Called by ``pleg`` once per exited container; what it returns goes into ``state.terminated.message``.
"""

import asyncio
import os
from pathlib import Path

from cri.api import runtime_v1_pb2 as pb
from node.kubelet.runtime import files, names

MAX_MESSAGE = 4096
_MAX_LOG_BYTES = 2048
_MAX_LOG_LINES = 80


async def read_message(status: pb.ContainerStatus) -> str:
    """Empty when the container left no message. Never raises: a missing file is no message."""
    return await asyncio.to_thread(_read, status)


def _read(status: pb.ContainerStatus) -> str:
    path = status.annotations.get(names.TERMINATION_MESSAGE_PATH, "")
    for mount in status.mounts:
        if path and mount.container_path == path:
            if text := _file(Path(mount.host_path), MAX_MESSAGE):
                return text
            break
    fallback = status.annotations.get(names.TERMINATION_MESSAGE_POLICY) == "FallbackToLogsOnError"
    return _log_tail(Path(status.log_path)) if fallback and status.exit_code != 0 and status.log_path else ""


def _file(path: Path, limit: int) -> str:
    try:
        with files.open_regular(path) as file:  # the container wrote it
            return file.read(limit).decode(errors="replace")
    except OSError:
        return ""


def _log_tail(path: Path) -> str:
    """The messages of the last lines, without CRI's time, stream and tag."""
    try:
        with files.open_regular(path) as file:  # a pod with a hostPath may have put a link there
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 4 * _MAX_LOG_BYTES))
            raw = file.read()
    except OSError:
        return ""
    texts = []
    for line in raw.splitlines()[-_MAX_LOG_LINES:]:
        parts = line.split(b" ", 3)
        if len(parts) == 4:
            texts.append(parts[3] + (b"\n" if parts[2].startswith(b"F") else b""))
    return b"".join(texts)[-_MAX_LOG_BYTES:].decode(errors="replace")

"""A network namespace for tests: whatever they program into the kernel's network dies with it.

Only the calling thread moves into it, so an asyncio test that runs on that thread, and every process it starts, sees
the namespace alone; the machine's own interfaces and rules are never touched.
"""

import ctypes
import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CLONE_NEWNET = 0x40000000


@contextmanager
def own_network_namespace() -> Iterator[str]:
    """Create a namespace with loopback up, move this thread into it, and undo both at the end; its name."""
    name = f"pyb-{uuid.uuid4().hex[:10]}"
    subprocess.run(["ip", "netns", "add", name], check=True, capture_output=True)
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter(name)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True, capture_output=True)
        yield name
    finally:
        _set(home)
        os.close(home)
        subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def enter(name: str) -> None:
    """Move this thread into a namespace for good."""
    target = os.open(Path("/run/netns", name), os.O_RDONLY | os.O_CLOEXEC)
    try:
        _set(target)
    finally:
        os.close(target)


def _set(descriptor: int) -> None:
    # os.setns came with Python 3.12.
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")

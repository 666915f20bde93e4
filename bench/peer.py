"""Upstream's API server and its etcd, as the shared measuring tools start them. Used by ``run`` and ``watch``."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PORT, TOKEN = 16443, "bench-token"  # what peer-up chooses


@contextmanager
def peer_apiserver(tools: Path, folder: Path, inside: Callable[..., list[str]]) -> Iterator[list[int]]:
    """The process ids of both. ``inside`` puts a command where they run: a namespace with an address besides loopback's."""
    subprocess.run(inside(str(tools / "peer-up"), str(folder)), check=True, timeout=60)
    pids = [int((folder / f"{name}.pid").read_text()) for name in ("apiserver", "etcd")]
    try:
        yield pids
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        time.sleep(2)

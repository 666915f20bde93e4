"""The tests' CSI driver as a program of its own, beside a whole cluster."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.cluster import Cluster


@contextmanager
def csi_driver_beside(cluster: Cluster) -> Iterator[Path]:
    """Yields the driver's folder, where volumes are ``volumes/<handle>``."""
    root = cluster.data_dir / "csi"
    argv = [sys.executable, "-m", "tests.support.csi_driver", str(root), str(cluster.data_dir / "kubelet")]
    process = cluster.start(*argv, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "serving\n"
        yield root
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()

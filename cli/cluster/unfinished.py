"""Tasks that a killed containerd was only creating: their shims and half-made processes, which no later containerd owns.

containerd starts a shim, then has it create the task; killed in between, it finds the shim again but no task in it, and
forgets both (containerd issue 6860; mended in 1.7). Every such crash would leave a process, a shim and a cgroup behind for
good. ``up`` and ``down`` call :func:`clear` before they start a private containerd, when nobody else can be creating anything.
"""

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

from bootstrap.containerd import Layout
from cli.cluster import teardown

NAMESPACE = "k8s.io"
_TASKS = "io.containerd.runtime.v2.task"
_MADE = "init.pid"  # the shim writes it when the task's process exists


def clear(where: Layout) -> list[str]:
    """Remove what was never finished; returns the ids. Call while no containerd runs on ``where``."""
    bundles = where.state / _TASKS / NAMESPACE
    found = unfinished(bundles)
    if not found:
        return found
    shims = teardown.runtime_leftovers(str(where.socket))
    for task in found:
        for pid in [pid for pid, served in shims.items() if served == task]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if (where.state / "runc" / NAMESPACE / task).exists() and shutil.which("runc"):
            command = ["runc", "--root", str(where.state / "runc" / NAMESPACE), "delete", "--force", task]
            subprocess.run(command, capture_output=True, check=False, timeout=30)
        shutil.rmtree(where.state / "runc" / NAMESPACE / task, ignore_errors=True)
        if not teardown.unmount_below(bundles / task):
            shutil.rmtree(bundles / task, ignore_errors=True)
            shutil.rmtree(where.root / _TASKS / NAMESPACE / task, ignore_errors=True)
    return found


def unfinished(bundles: Path) -> list[str]:
    """Ids of the tasks below ``bundles`` whose process was never made."""
    if not bundles.is_dir():
        return []
    return sorted(entry.name for entry in bundles.iterdir() if entry.is_dir() and not (entry / _MADE).exists())

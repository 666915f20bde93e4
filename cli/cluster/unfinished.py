"""Tasks that a killed containerd was only creating or deleting: their shims and half-made processes, which no later
containerd owns.

containerd starts a shim, then has it create the task; on the way back it has the task deleted, then ends the shim. Killed in
between, it finds the shim again but no task in it, and forgets both (containerd issue 6860; mended in 1.7). Every such crash
would leave a process, a shim and a cgroup behind for good. ``up`` and ``down`` call :func:`clear` before they start a private
containerd, when nobody else can be creating anything.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Collection
from pathlib import Path

from bootstrap.containerd import Layout
from cli.cluster import teardown

NAMESPACE = "k8s.io"
_TASKS = "io.containerd.runtime.v2.task"
_ROUNDS, _PAUSE = 100, 0.01  # a process that was killed takes a moment to go
_MADE = "init.pid"  # the shim writes it when the task's process exists


def clear(where: Layout) -> list[str]:
    """Remove what was never finished; returns the ids. Call while no containerd runs on ``where``."""
    bundles, states = where.state / _TASKS / NAMESPACE, where.state / "runc" / NAMESPACE
    lost = unfinished(bundles, states)
    _kill_shims(where, bundles, lost)
    for task in lost:
        if (states / task).exists() and shutil.which("runc"):
            command = ["runc", "--root", str(states), "delete", "--force", task]
            subprocess.run(command, capture_output=True, check=False, timeout=30)
        shutil.rmtree(states / task, ignore_errors=True)
        if not teardown.unmount_below(bundles / task):
            shutil.rmtree(bundles / task, ignore_errors=True)
            shutil.rmtree(where.root / _TASKS / NAMESPACE / task, ignore_errors=True)
    return lost


def _kill_shims(where: Layout, bundles: Path, lost: Collection[str]) -> None:
    """Those that serve nothing, until no more come: a shim starts as the child of a short-lived one."""
    needed = {_shim_of(entry) for entry in _folders(bundles) if entry.name not in lost}
    for _ in range(_ROUNDS):
        found = teardown.runtime_leftovers(str(where.socket))
        # the containers of a pod are served by the shim of its sandbox
        idle = [
            pid
            for pid, served in found.items()
            if not (bundles / served).exists() or (served in lost and _shim_of(bundles / served) not in needed)
        ]
        if not idle:
            return
        for pid in idle:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_PAUSE)


def unfinished(bundles: Path, states: Path) -> list[str]:
    """Ids of the tasks below ``bundles`` that were never made, or that runc (its ``states``) has deleted already."""
    found = _folders(bundles)
    return sorted(entry.name for entry in found if not (entry / _MADE).exists() or not (states / entry.name).exists())


def _folders(bundles: Path) -> list[Path]:
    return [entry for entry in bundles.iterdir() if entry.is_dir()] if bundles.is_dir() else []


def _shim_of(bundle: Path) -> str:
    """The address of the shim that serves a task."""
    try:
        return (bundle / "address").read_text()
    except OSError:
        return ""

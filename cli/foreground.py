"""The foreground form of ``pybernetes up``: stays, starts again what dies, gives way to `down` and to another `up`."""

import signal
import time
from collections.abc import Callable, Mapping

import click

from cli.cluster import plan, processes
from cli.cluster.layout import Layout
from cli.cluster.processes import Process
from cli.cluster.settings import load
from cli.up import STOP_SECONDS, LockedError, exclusive, start_all, tell

_LOOK_EVERY = 0.5
_RETRY_AFTER = 2.0


def watch_over(layout: Layout, running: Mapping[str, Process]) -> None:
    """Until a signal comes; then stop the daemons and leave the containers. Returns early when `down` stops the cluster."""
    stopping: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _: stopping.append(received))
    tell("press Ctrl-C to stop the daemons; containers go on until `pybernetes down`")
    while not stopping:
        for process in running.values():
            processes.reap(process.pid)
        dead = next((process for process in running.values() if not process.alive()), None)
        if dead is not None:
            try:
                running = _after_death(layout, running, dead, lambda: bool(stopping))
            except click.ClickException as error:
                tell(f"cannot start it: {error.message}")
                time.sleep(_RETRY_AFTER)
            if not running:
                tell("the cluster was stopped by `pybernetes down`")
                return
        time.sleep(_LOOK_EVERY)
    for name in reversed(plan.PROCESSES):
        if name in running:
            processes.stop(running[name], STOP_SECONDS)
            tell(f"stopped {name}")


def _after_death(
    layout: Layout, running: Mapping[str, Process], dead: Process, stopping: Callable[[], bool]
) -> Mapping[str, Process]:
    """Start again what is missing, unless whoever holds the lock has seen to it; empty when that was a `down`."""
    while not stopping():
        try:
            with exclusive(layout):
                # `down` leaves no records
                if not any(layout.run.glob("*.json")):
                    return {}
                found = {name: processes.find(name, layout.data_dir, layout.run) for name in running}
                if found[dead.name] is None:
                    tell(f"{dead.name} (pid {dead.pid}) has died: starting it again")
                return start_all(layout, load(layout.settings), found)
        except LockedError:
            time.sleep(_LOOK_EVERY)
        except FileNotFoundError:  # purged
            return {}
    return running

"""Processes that outlive the command that started them: start, find again, stop. Called by ``up``, ``down``, ``status``.

A process is known by pid *and* start time (and boot), so a recycled pid is never taken for ours. The record under ``run/``
is a hint; the mark in the process's own environment is what finds one whose record was lost to a crash between start
and record.
"""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from component.logs import LOG_LIMIT

MARK_DATA_DIR = "PYBERNETES_DATA_DIR"
MARK_NAME = "PYBERNETES_PROCESS"
MARK_CODE = "PYBERNETES_CODE"
LOG_BYTES = 20 << 20


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """A process to have running. ``argv[0]`` is an absolute path; ``log`` gets both output streams."""

    name: str
    argv: Sequence[str]
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Process:
    """A process that was seen running. ``start_time`` is field 22 of /proc/PID/stat, in clock ticks since boot."""

    name: str
    pid: int
    start_time: int
    boot_id: str
    argv: tuple[str, ...] = ()
    log_start: int = 0  # size of its log when it was started: what stands before is of its predecessors

    def alive(self) -> bool:
        return self.boot_id == boot_id() and start_time_of(self.pid) == self.start_time

    def code(self) -> str:
        """The fingerprint of the code it was started from; empty when it carries none or is gone."""
        prefix = f"{MARK_CODE}=".encode()
        environment = b""
        deadline = time.monotonic() + 1.0
        while not environment and self.alive() and time.monotonic() < deadline:  # for an instant of its exec there is none
            with contextlib.suppress(OSError):
                environment = Path(f"/proc/{self.pid}/environ").read_bytes()
        return next((item[len(prefix) :].decode() for item in environment.split(b"\0") if item.startswith(prefix)), "")

    def uptime(self) -> float:
        """Seconds since it started."""
        ticks = os.sysconf("SC_CLK_TCK")
        return max(0.0, float(Path("/proc/uptime").read_text().split()[0]) - self.start_time / ticks)

    def memory(self) -> int:
        """Proportional set size in bytes (0 when the process is gone)."""
        try:
            text = Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        except OSError:
            return 0
        return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:")), 0)


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_time_of(pid: int) -> int | None:
    """The start time of a live process; None when there is none, or only a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])


def start(spec: ProcessSpec, data_dir: Path, records: Path) -> Process:
    """Start ``spec`` in a session of its own and record it. Raises OSError when the program cannot be run."""
    spec.log.parent.mkdir(parents=True, exist_ok=True)
    marks = {MARK_DATA_DIR: str(data_dir), MARK_NAME: spec.name}
    with spec.log.open("ab") as log:
        log_start = log.tell()
        child = subprocess.Popen(
            list(spec.argv),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd="/",
            env={**os.environ, LOG_LIMIT: str(LOG_BYTES), **spec.env, **marks},
        )
    process = Process(spec.name, child.pid, start_time_of(child.pid) or 0, boot_id(), tuple(spec.argv), log_start)
    record(process, records)
    child.returncode = 0  # it is not ours to wait for: without this, Popen warns when it is collected
    return process


def record(process: Process, records: Path) -> None:
    """Write the record atomically."""
    records.mkdir(parents=True, exist_ok=True)
    temporary = records / f".{process.name}.tmp"
    temporary.write_text(json.dumps(asdict(process)))
    temporary.rename(records / f"{process.name}.json")


def find(name: str, data_dir: Path, records: Path) -> Process | None:
    """The live process ``name`` of this cluster, by its record or else by the mark in its environment."""
    try:
        raw = json.loads((records / f"{name}.json").read_text())
        recorded = Process(**{**raw, "argv": tuple(raw["argv"])})
        if recorded.alive():
            return recorded
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return next((process for process in marked(data_dir) if process.name == name), None)


def marked(data_dir: Path) -> Iterator[Process]:
    """Every live process that carries this cluster's mark and is not something a runtime started on its behalf."""
    wanted = f"{MARK_DATA_DIR}={data_dir}".encode()
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            environment = Path(f"/proc/{entry}/environ").read_bytes().split(b"\0")
            if wanted not in environment:
                continue
            argv = tuple(part.decode(errors="replace") for part in Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")[:-1])
        except OSError:
            continue
        prefix = f"{MARK_NAME}=".encode()
        name = next((item[len(prefix) :].decode() for item in environment if item.startswith(prefix)), "")
        started = start_time_of(int(entry))
        # Children inherit the mark (containerd's shims, a daemon's helpers): only what `start` started leads a session.
        # A shim leads one too, but it belongs to its pod.
        shim = bool(argv) and os.path.basename(argv[0]).startswith("containerd-shim")
        if started is not None and name and argv and not shim and _leads_session(int(entry)):
            yield Process(name, int(entry), started, boot_id(), argv)


def _leads_session(pid: int) -> bool:
    try:
        return os.getsid(pid) == pid
    except OSError:
        return False


def stop(process: Process, grace: float, waiting: Callable[[], None] = lambda: None) -> bool:
    """SIGTERM, then SIGKILL after ``grace`` seconds. True if it went by itself."""
    gently = _signal_and_wait(process, signal.SIGTERM, grace, waiting)
    if not gently:
        _signal_and_wait(process, signal.SIGKILL, 5.0, waiting)
    return gently


def _signal_and_wait(process: Process, number: signal.Signals, seconds: float, waiting: Callable[[], None]) -> bool:
    if not process.alive():
        return True
    try:
        # a pidfd cannot be fooled by a pid that is reused between the check and the signal
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return True
    try:
        if not process.alive():
            return True
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return True
    finally:
        os.close(descriptor)
    deadline = time.monotonic() + seconds
    while process.alive():
        if time.monotonic() >= deadline:
            return False
        waiting()
        reap(process.pid)
        time.sleep(0.02)
    return True


def reap(pid: int) -> None:
    """Collect ``pid`` if it is a dead child of this very process (the foreground form of `up`)."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)

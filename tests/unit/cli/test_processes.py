"""Processes are known by pid and start time, found by mark when their record is lost, and stopped for certain."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.cluster import processes
from cli.cluster.processes import Process, ProcessSpec

SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)",
]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for process in processes.marked(tmp_path):
        processes.stop(process, 0.0)


def start(folder: Path, argv: list[str], name: str = "sleeper") -> Process:
    return processes.start(ProcessSpec(name, argv, folder / "log"), folder, folder / "run")


def test_a_started_process_is_found_by_its_record(folder: Path) -> None:
    started = start(folder, SLEEPER)

    assert processes.find("sleeper", folder, folder / "run") == started
    assert started.alive()
    assert started.memory() > 0


def test_a_process_whose_record_was_lost_is_found_by_its_mark(folder: Path) -> None:
    started = start(folder, SLEEPER)
    (folder / "run" / "sleeper.json").unlink()

    found = processes.find("sleeper", folder, folder / "run")

    assert found is not None
    assert (found.pid, found.start_time, found.argv) == (started.pid, started.start_time, started.argv)


def test_a_torn_record_is_as_good_as_none(folder: Path) -> None:
    started = start(folder, SLEEPER)
    (folder / "run" / "sleeper.json").write_text('{"name": "sleeper", "pid"')

    found = processes.find("sleeper", folder, folder / "run")

    assert found is not None
    assert found.pid == started.pid


def test_a_recycled_pid_is_not_ours(folder: Path) -> None:
    started = start(folder, SLEEPER)
    older = Process(started.name, started.pid, started.start_time - 1, started.boot_id)
    other_boot = Process(started.name, started.pid, started.start_time, "another boot")

    assert not older.alive()
    assert not other_boot.alive()
    assert processes.stop(older, 0.0), "stopping what is gone succeeds"
    assert started.alive(), "and leaves the stranger alone"


def test_another_cluster_s_processes_are_not_ours(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    start(folder, SLEEPER)

    assert list(processes.marked(tmp_path_factory.mktemp("other"))) == []


def test_children_of_our_processes_are_not_taken_for_them(folder: Path) -> None:
    parent = [sys.executable, "-c", f"import subprocess; subprocess.run({SLEEPER!r})"]
    started = start(folder, parent, "parent")

    assert [process.pid for process in processes.marked(folder)] == [started.pid]
    processes.stop(started, 1.0)
    for child in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"{processes.MARK_DATA_DIR}={folder}".encode() in child.read_bytes():
                os.kill(int(child.parent.name), signal.SIGKILL)
        except OSError:
            continue


def test_stop_is_gentle_first_and_certain_at_last(folder: Path) -> None:
    gentle, stubborn = start(folder, SLEEPER, "gentle"), start(folder, STUBBORN, "stubborn")
    while "up" not in (folder / "log").read_text():
        pass

    assert processes.stop(gentle, 5.0) is True
    assert processes.stop(stubborn, 0.1) is False
    assert not gentle.alive()
    assert not stubborn.alive()


def test_output_goes_to_the_log(folder: Path) -> None:
    started = start(folder, [sys.executable, "-c", "import sys; print('out'); print('err', file=sys.stderr)"], "speaker")
    while started.alive():
        processes.reap(started.pid)

    assert sorted((folder / "log").read_text().split()) == ["err", "out"]

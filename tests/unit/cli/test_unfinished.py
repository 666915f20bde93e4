"""A containerd that was killed while it created or deleted a task leaves a bundle without one; whole ones are not touched."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bootstrap.containerd import Layout
from cli.cluster import teardown, unfinished

TASKS = Path("io.containerd.runtime.v2.task", "k8s.io")


@pytest.fixture
def where(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "root", tmp_path / "state", tmp_path / "cni", tmp_path / "bin")


def bundle(where: Layout, task: str, *, made: bool = True, known_to_runc: bool = True, shim: str = "") -> Path:
    folder = where.state / TASKS / task
    folder.mkdir(parents=True)
    (folder / "address").write_text(f"unix:///run/{shim or task}")
    (where.root / TASKS / task).mkdir(parents=True)
    if made:
        (folder / "init.pid").write_text("1")
    if known_to_runc:
        (where.state / "runc" / "k8s.io" / task).mkdir(parents=True)
    return folder


def test_only_what_was_never_finished_goes(where: Layout) -> None:
    whole = bundle(where, "whole")
    half = bundle(where, "half", made=False, known_to_runc=False)
    deleted = bundle(where, "deleted", known_to_runc=False)

    assert unfinished.clear(where) == ["deleted", "half"]

    assert whole.exists()
    assert (where.root / TASKS / "whole").exists()
    for gone in (half, deleted, where.root / TASKS / "half", where.root / TASKS / "deleted"):
        assert not gone.exists()
    assert unfinished.clear(where) == []


def test_nothing_to_clear_before_the_first_start(where: Layout) -> None:
    assert unfinished.clear(where) == []


@pytest.fixture
def shims(where: Layout) -> Iterator[dict[str, "subprocess.Popen[bytes]"]]:
    """Processes that look like containerd's shims, and have looked so since before the test starts."""
    running = {}
    for task in ("whole", "half", "deleted", "shared", "bare"):
        argv = ["containerd-shim-runc-v2", "-c", "print(flush=True); input()", "-id", task, "-address", str(where.socket)]
        running[task] = subprocess.Popen(argv, executable=sys.executable, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    for shim in running.values():
        assert shim.stdout is not None
        shim.stdout.readline()
    yield running
    for shim in running.values():
        shim.kill()
        shim.communicate()


def test_shims_that_serve_nothing_are_killed_and_no_others(where: Layout, shims: dict[str, "subprocess.Popen[bytes]"]) -> None:
    bundle(where, "whole")
    bundle(where, "half", made=False, known_to_runc=False)
    bundle(where, "deleted", known_to_runc=False)
    bundle(where, "shared", known_to_runc=False)
    bundle(where, "a-container-of-shared", shim="shared")
    assert sorted(teardown.runtime_leftovers(str(where.socket)).values()) == sorted(shims)

    unfinished.clear(where)

    for task in ("half", "deleted", "bare"):
        assert shims[task].wait(5) == -9
    assert shims["whole"].poll() is None
    assert shims["shared"].poll() is None, "it serves a container that runs"

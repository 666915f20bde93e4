"""A containerd that was killed while it created a task leaves a bundle without a process; whole ones are not touched."""

import subprocess
import sys
from pathlib import Path

from bootstrap.containerd import Layout
from cli.cluster import teardown, unfinished


def layout(top: Path) -> Layout:
    return Layout(top / "root", top / "state", top / "cni", top / "bin")


def bundle(where: Layout, task: str, *, made: bool) -> Path:
    folder = where.state / "io.containerd.runtime.v2.task" / "k8s.io" / task
    folder.mkdir(parents=True)
    if made:
        (folder / "init.pid").write_text("1")
    (where.root / "io.containerd.runtime.v2.task" / "k8s.io" / task).mkdir(parents=True)
    return folder


def test_only_what_was_never_made_goes(tmp_path: Path) -> None:
    where = layout(tmp_path)
    whole, half = bundle(where, "whole", made=True), bundle(where, "half", made=False)

    assert unfinished.clear(where) == ["half"]

    assert whole.exists()
    assert not half.exists()
    assert not (where.root / "io.containerd.runtime.v2.task" / "k8s.io" / "half").exists()
    assert unfinished.clear(where) == []


def test_nothing_to_clear_before_the_first_start(tmp_path: Path) -> None:
    assert unfinished.clear(layout(tmp_path)) == []


def test_the_shim_of_an_unfinished_task_is_killed_and_no_other(tmp_path: Path) -> None:
    where = layout(tmp_path)
    bundle(where, "whole", made=True)
    bundle(where, "half", made=False)
    shims = {task: _shim(where, task) for task in ("whole", "half")}
    try:
        assert sorted(teardown.runtime_leftovers(str(where.socket)).values()) == ["half", "whole"]
        unfinished.clear(where)
        assert shims["half"].wait(5) == -9
        assert shims["whole"].poll() is None
    finally:
        for shim in shims.values():
            shim.kill()
            shim.communicate()


def _shim(where: Layout, task: str) -> "subprocess.Popen[bytes]":
    """A process that looks like containerd's, and has looked so since before this returns."""
    argv = ["containerd-shim-runc-v2", "-c", "print(flush=True); input()", "-id", task, "-address", str(where.socket)]
    shim = subprocess.Popen(argv, executable=sys.executable, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert shim.stdout is not None
    shim.stdout.readline()
    return shim

"""A daemon of older code is noticed: any change of a module or of a library changes the fingerprint, nothing else does."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.cluster import code, processes
from cli.cluster.processes import MARK_CODE, ProcessSpec
from cli.up import what_differs

SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    (tmp_path / "node" / "kubelet").mkdir(parents=True)
    (tmp_path / "node" / "__init__.py").write_text("")
    (tmp_path / "node" / "kubelet" / "pods.py").write_text("a = 1\n")
    return tmp_path


def digest(root: Path) -> str:
    return code.digest(root, ("node",), ["grpcio-1.70.0.dist-info"])


def test_the_same_sources_have_the_same_fingerprint(sources: Path) -> None:
    before = digest(sources)
    (sources / "node" / "kubelet" / "__pycache__").mkdir()
    (sources / "node" / "kubelet" / "__pycache__" / "pods.cpython-311.pyc").write_text("made by the interpreter")
    (sources / "docs").mkdir()
    (sources / "docs" / "page.md").write_text("not code")

    assert digest(sources) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda kubelet: (kubelet / "pods.py").write_text("a = 2, longer\n"),
        lambda kubelet: os.utime(kubelet / "pods.py", (1, 1)),
        lambda kubelet: (kubelet / "new.py").write_text(""),
        lambda kubelet: (kubelet / "pods.py").unlink(),
        lambda kubelet: (kubelet / "pods.py").rename(kubelet / "pod.py"),
    ],
)
def test_any_change_of_a_module_changes_it(sources: Path, change: Callable[[Path], object]) -> None:
    before = digest(sources)
    change(sources / "node" / "kubelet")

    assert digest(sources) != before


def test_another_version_of_a_library_changes_it(sources: Path, tmp_path: Path) -> None:
    (tmp_path / "lib" / "grpcio-1.71.0.dist-info").mkdir(parents=True)

    assert code.installed([str(tmp_path / "lib"), str(tmp_path / "missing.zip")]) == ["grpcio-1.71.0.dist-info"]
    assert code.digest(sources, ("node",), ["grpcio-1.71.0.dist-info"]) != digest(sources)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for process in processes.marked(tmp_path):
        processes.stop(process, 0.0)


@pytest.mark.parametrize(
    ("argv", "fingerprint", "difference"),
    [
        (SLEEPER, "new", ""),
        (SLEEPER, "newer", "other code"),
        ([*SLEEPER, "more"], "new", "with other flags"),
    ],
)
def test_a_running_process_is_told_from_the_wanted_one(folder: Path, argv: list[str], fingerprint: str, difference: str) -> None:
    running = processes.start(ProcessSpec("kubelet", SLEEPER, folder / "log", {MARK_CODE: "new"}), folder, folder / "run")
    wanted = ProcessSpec("kubelet", argv, folder / "log", {MARK_CODE: fingerprint})

    assert what_differs(wanted, running) == difference

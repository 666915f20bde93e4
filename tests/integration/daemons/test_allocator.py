"""The API server runs on an allocator that gives memory back; other verbs, and who has chosen, keep theirs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.daemons import bench

GLIBC = (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
SHOW = "import sys, cli.__main__; sys.orig_argv = [sys.executable, '-c', 'import os; print(os.environ.get(\"PYTHONMALLOC\"))'];"


def run(verb: str, **environment: str) -> str:
    """What the program that the command line becomes says of its allocator, or what the command line itself says."""
    program = f"{SHOW} sys.argv = ['pybernetes', '{verb}', '--help']; cli.__main__.main()"
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONMALLOC"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=inherited | environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.skipif(not GLIBC, reason="this C library is not glibc")
def test_apiserver_starts_again_with_the_c_librarys_allocator() -> None:
    assert run("apiserver") == "malloc"


def test_who_has_chosen_is_left_alone() -> None:
    assert "Usage" in run("apiserver", PYTHONMALLOC="pymalloc")


def test_other_verbs_keep_the_interpreters() -> None:
    assert "Usage" in run("scheduler")


@pytest.mark.skipif(not GLIBC, reason="this C library is not glibc")
def test_a_started_apiserver_has_it(tmp_path: Path) -> None:
    with bench(tmp_path / "c") as made:
        daemon = made.start_apiserver()
        environment = Path(f"/proc/{daemon.process.pid}/environ").read_bytes().split(b"\0")
        assert b"PYTHONMALLOC=malloc" in environment

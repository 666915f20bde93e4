"""Container runtimes other than the machine's own, each a tree of unpacked packages below ``.cache/runtimes``.

`make runtimes` fetches them. A test names one (``running_containerd(runtime="containerd-2")``), or the environment's RUNTIME does
for a whole run: its programs then come first in PATH.
"""

import os
import shutil
from pathlib import Path

import pytest

from tests.support.debian import Packages, runs

CACHE = Path(__file__).parents[2] / ".cache" / "runtimes"
SUITES = {"containerd-1.7": "trixie", "containerd-2": "forky"}
"""Which suite of Debian has it. The exact version is the suite's."""
_PACKAGES = ("containerd", "runc")


def tree(name: str) -> Path:
    return CACHE / name


def is_fetched(name: str) -> bool:
    return (tree(name) / "versions").exists()


def require(name: str) -> None:
    """Skip, saying why, where it was not fetched. The machine's own is ``""``."""
    if name and not is_fetched(name):
        pytest.skip(f"{name} was not fetched (`make runtimes`)")


def search_path(name: str) -> str:
    """PATH with its programs first."""
    own = [str(tree(name) / "usr" / folder) for folder in ("bin", "sbin")] if name else []
    return os.pathsep.join([*own, os.environ["PATH"]])


def environment(name: str) -> dict[str, str]:
    return {**os.environ, "PATH": search_path(name)}


def fetch(name: str) -> str:
    """Unpack it, whatever is there already; its versions. Raises DebianError."""
    packages = Packages(CACHE / f"apt-{SUITES[name]}", SUITES[name])
    packages.update()
    made = CACHE / f"{name}.new"
    shutil.rmtree(made, ignore_errors=True)
    shutil.rmtree(tree(name), ignore_errors=True)
    versions = packages.unpack(_PACKAGES, made)
    made.rename(tree(name))  # programs are told where their libraries are: only here
    for program in sorted((tree(name) / "usr/sbin").iterdir()):
        if program.name == "runc" and not runs(program, "--version"):
            packages.adopt(program, tree(name))
    text = ", ".join(f"{package} {version}" for package, version in versions.items())
    (tree(name) / "versions").write_text(text + "\n")
    return text

"""The stock clients that tests run unmodified: the machine's kubectl, kubectl of a second minor, and helm.

The last two are fetched by ``scripts/stock_clients.py``. A test that needs one that is not there fails and says how to get it:
a check that silently did not run would prove nothing.
"""

import platform
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import stock_clients

MACHINE, SECOND = "kubectl of this machine", "kubectl 1.35"
KUBECTLS = (MACHINE, SECOND)


def kubectl(which: str = MACHINE) -> str:
    """The program for one of ``KUBECTLS``."""
    return "kubectl" if which == MACHINE else _fetched("kubectl")


def helm() -> str:
    return _fetched("helm")


def _fetched(name: str) -> str:
    if platform.machine() != "x86_64":
        pytest.skip(f"{stock_clients.PACKAGE} carries {name} for x86_64 only")
    path = stock_clients.FOLDER / name
    if name in stock_clients.missing():
        pytest.fail(f"{path} is not there: run scripts/setup --dev (or python scripts/stock_clients.py) and read what it says")
    return str(path)

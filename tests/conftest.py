"""What every test gets: no event loop that nobody closes, and what the package's build generates."""

import asyncio
import json
import os
import sys
from collections import Counter
from pathlib import Path

import hypothesis
import pytest

from tests.support import runtimes

# pytest-asyncio asks for "the current loop" before it makes its own. Told that there is none, asyncio makes none;
# otherwise Python 3.11 creates one there, which is never closed and fails some later test with a ResourceWarning.
asyncio.set_event_loop(None)

# A busy machine is no bug: the tests have a timeout of their own. Whether a change lands is decided by the change, so
# property tests try the same examples each time; `make explore` tries new ones.
hypothesis.settings.register_profile("same", deadline=None, derandomize=True)
hypothesis.settings.register_profile("new", deadline=None, max_examples=1000, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("EXAMPLES", "same"))

ROOT = Path(__file__).parent.parent


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Stopwatch(), "stopwatch")
    _choose_runtime(os.environ.get("RUNTIME", ""))
    _generate()


def _choose_runtime(name: str) -> None:
    """Every containerd of this run is that one (``tests/support/runtimes.py``)."""
    if not name:
        return
    if not runtimes.is_fetched(name):
        known = ", ".join(runtimes.SUITES)
        raise pytest.UsageError(f"RUNTIME={name}: there is no such runtime here ({known}); `make runtimes` fetches them")
    os.environ["PATH"] = runtimes.search_path(name)


def _generate() -> None:
    """What the package's build makes, where it is missing or older than its sources: pulling new sources runs no build."""
    sys.path.insert(0, str(ROOT / "scripts"))
    import cri_stubs
    import schema_data

    structure = ROOT / "apimachinery/schema/data/structure.json"
    made_by = schema_data.made_by(ROOT / "scripts/schema_data.py")
    if not structure.exists() or json.loads(structure.read_bytes()).get("made_by") != made_by:
        schema_data.generate(ROOT)
    for proto in cri_stubs.PROTOS:
        made = cri_stubs.stubs_of(ROOT, proto)
        if not all(stub.exists() and stub.stat().st_mtime >= (ROOT / proto).stat().st_mtime for stub in made):
            cri_stubs.generate(ROOT)
            break


class Stopwatch:
    """Tells at the end which kind of test (the folder right below tests/) took how long."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.split("/")[1]] += report.duration  # type: ignore[assignment]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        parts = [f"{folder} {seconds:.0f} s" for folder, seconds in self._seconds.items()]
        if parts:
            terminalreporter.write_line(f"time by kind of test: {', '.join(parts)}")

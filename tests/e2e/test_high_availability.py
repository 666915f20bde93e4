"""A control plane on three machines whose every process is killed: the short form of ``make ha``."""

import asyncio
from pathlib import Path

import pytest

from tests.ha.run import trial, verdict


@pytest.mark.e2e
@pytest.mark.timeout(180)
def test_every_process_may_die(tmp_path: Path) -> None:
    seen = asyncio.run(trial(tmp_path / "ha", seconds=20, spacing=2, seed=1))
    good, lines = verdict(seen)
    assert good, "\n".join(lines)
    assert sum(seen.kills.values()) >= 9
    assert len(seen.changes) >= 3

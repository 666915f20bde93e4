"""API servers are killed, paused, cut off and starved under load, and nothing that they said turns out untrue. ``run`` does the
same for longer."""

from pathlib import Path

import pytest

from tests.robustness.checker import check
from tests.robustness.run import episode

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.mark.parametrize(("kind", "seconds"), [("sqlite", 12.0), ("etcd", 20.0)])
async def test_what_was_acknowledged_outlives_every_fault(tmp_path: Path, kind: str, seconds: float) -> None:
    history = await episode(tmp_path, seed=1, seconds=seconds, kind=kind)
    assert check(history) == []
    assert sum(history.faults.values()) > 1
    assert sum(write.outcome == "ok" for write in history.writes) > 50


@pytest.mark.parametrize("fault", ["acknowledge-early", "drop-events"])
async def test_a_broken_server_is_found_out(tmp_path: Path, fault: str) -> None:
    assert check(await episode(tmp_path, seed=2, seconds=6.0, fault=fault))

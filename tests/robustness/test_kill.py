"""The API server is killed under load and nothing that it said turns out untrue. ``run`` does the same for longer."""

from pathlib import Path

import pytest

from tests.robustness.checker import check
from tests.robustness.run import episode

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
SECONDS = 12.0


async def test_what_was_acknowledged_outlives_kill_9(tmp_path: Path) -> None:
    history = await episode(tmp_path, seed=1, seconds=SECONDS)
    assert check(history) == []
    assert history.interruptions > 1
    assert sum(write.outcome == "ok" for write in history.writes) > 50


@pytest.mark.parametrize("fault", ["acknowledge-early", "drop-events"])
async def test_a_broken_server_is_found_out(tmp_path: Path, fault: str) -> None:
    assert check(await episode(tmp_path, seed=2, seconds=3.0, fault=fault))

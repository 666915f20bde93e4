"""How syncs are spaced."""

import itertools

from netproxy.pace import Pace


def _times(pace: Pace, cost: float, count: int) -> list[float]:
    """When syncs start if there is always something to do."""
    now, starts = 100.0, []
    for _ in range(count):
        now += pace.delay(now)
        starts.append(round(now - 100.0, 3))
        now += cost
        pace.synced(now, cost)
    return starts


def test_two_at_once_then_one_a_period() -> None:
    assert _times(Pace(1.0), 0.0, 5) == [0.0, 0.0, 1.0, 2.0, 3.0]


def test_while_syncs_are_cheap_the_adaptive_pace_is_quicker_and_never_slower_than_asked() -> None:
    cheap = _times(Pace(1.0, adaptive=True), 0.001, 10)
    assert cheap[-1] < 0.6
    dear = _times(Pace(1.0, adaptive=True), 0.5, 6)
    steady = [later - earlier for earlier, later in itertools.pairwise(dear)]
    assert max(steady) <= 1.5


def test_a_period_of_zero_never_waits() -> None:
    assert _times(Pace(0.0), 0.0, 5) == [0.0] * 5

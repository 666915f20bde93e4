"""Refusals are free while they are few; a storm of them is spread out, and nobody waits for ever."""

from controlplane.apiserver.pace import Pace


def test_few_are_free_and_many_are_spread() -> None:
    pace = Pace(rate=100, at_once=10)
    assert [pace.delay(0.0) for _ in range(10)] == [0.0] * 10
    waits = [pace.delay(0.0) for _ in range(100)]
    assert waits == sorted(waits)
    assert 0.9 < waits[-1] < 1.01  # a hundred a second
    assert pace.delay(50.0) == 0.0


def test_a_flood_waits_five_seconds_at_most_and_is_forgotten_when_it_ends() -> None:
    pace = Pace(rate=100, at_once=10)
    waits = [pace.delay(0.0) for _ in range(100_000)]
    assert max(waits) == 5.0
    assert pace.delay(6.0) == 0.0

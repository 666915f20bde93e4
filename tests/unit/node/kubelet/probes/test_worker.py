"""Probes against thresholds, in virtual time."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from component.clock import FakeClock
from node.kubelet.probes.results import Attempt, Kind, Outcome, Settings
from node.kubelet.probes.worker import Hooks, work

OK, BAD, UNKNOWN = Attempt(Outcome.SUCCESS), Attempt(Outcome.FAILURE, "no"), Attempt(Outcome.UNKNOWN, "?")
REFUSED = Attempt(Outcome.FAILURE, "refused", refused=True)


@dataclass
class Probe:
    """Answers by virtual time; records when it was asked and what was settled."""

    clock: FakeClock
    answer: Callable[[float], Attempt]
    asked: list[float] = field(default_factory=list)
    settled: list[tuple[float, Outcome]] = field(default_factory=list)
    failed: list[float] = field(default_factory=list)

    def hooks(self) -> Hooks:
        async def attempt() -> Attempt:
            now = self.clock.monotonic()
            self.asked.append(round(now, 2))
            return self.answer(now)

        return Hooks(
            attempt,
            lambda outcome: self.settled.append((round(self.clock.monotonic(), 2), outcome)),
            lambda _: self.failed.append(round(self.clock.monotonic(), 2)),
        )


async def _run(kind: Kind, settings: Settings, answer: Callable[[float], Attempt], seconds: float, **more: object) -> Probe:
    clock = FakeClock()
    probe = Probe(clock, answer)
    task = asyncio.ensure_future(work(kind, settings, clock, probe.hooks(), 0.0, **more))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    await clock.advance(seconds)
    task.cancel()
    await asyncio.wait({task})
    return probe


async def test_readiness_begins_at_once_and_repeats() -> None:
    probe = await _run(Kind.READINESS, Settings(period=10), lambda now: OK, 25)
    assert probe.asked == [0, 10, 20]
    assert probe.settled[0] == (0, Outcome.SUCCESS)


async def test_the_initial_delay_is_kept() -> None:
    probe = await _run(Kind.LIVENESS, Settings(initial_delay=7, period=10), lambda now: OK, 20)
    assert probe.asked == [7, 17]


async def test_thresholds() -> None:
    settings = Settings(period=1, success_threshold=2, failure_threshold=3)
    probe = await _run(Kind.READINESS, settings, lambda now: OK if now < 5 else BAD, 9.5)
    changes = [probe.settled[0], next(each for each in probe.settled if each[1] is Outcome.FAILURE)]
    assert changes == [(1, Outcome.SUCCESS), (7, Outcome.FAILURE)]
    assert probe.failed[:2] == [5, 6]


async def test_liveness_ends_with_its_verdict() -> None:
    probe = await _run(Kind.LIVENESS, Settings(period=1, failure_threshold=2), lambda now: BAD, 10)
    assert probe.asked == [0, 1]
    assert probe.settled == [(1, Outcome.FAILURE)]


async def test_startup_ends_with_success() -> None:
    probe = await _run(Kind.STARTUP, Settings(period=1), lambda now: OK if now >= 2 else BAD, 10)
    assert probe.asked == [0, 1, 2]
    assert probe.settled == [(2, Outcome.SUCCESS)]


async def test_an_unknown_outcome_changes_nothing() -> None:
    probe = await _run(Kind.LIVENESS, Settings(period=1, failure_threshold=1), lambda now: UNKNOWN, 3.5)
    assert len(probe.asked) == 4
    assert probe.settled == []


@pytest.mark.parametrize("kind", [Kind.READINESS, Kind.STARTUP])
async def test_nobody_listening_yet_is_tried_again_soon(kind: Kind) -> None:
    probe = await _run(kind, Settings(period=10, failure_threshold=1), lambda now: OK if now >= 0.2 else REFUSED, 5)
    assert probe.settled[0][0] < 0.5
    assert probe.settled[0][1] is Outcome.SUCCESS
    assert probe.failed == [], "extra tries count for nothing"


async def test_refusals_still_fail_at_the_end_of_the_period() -> None:
    probe = await _run(Kind.READINESS, Settings(period=1, failure_threshold=3), lambda now: REFUSED, 3.5)
    assert len(probe.failed) == 3
    assert probe.settled[-1][1] is Outcome.FAILURE


async def test_a_refused_liveness_probe_is_not_hurried() -> None:
    probe = await _run(Kind.LIVENESS, Settings(period=10), lambda now: REFUSED, 15)
    assert probe.asked == [0, 10]


async def test_once_ready_a_refusal_counts_at_once() -> None:
    probe = await _run(Kind.READINESS, Settings(period=1, failure_threshold=1), lambda now: OK if now < 1 else REFUSED, 2.5)
    assert probe.settled[1] == (1, Outcome.FAILURE)

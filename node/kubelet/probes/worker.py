"""Probes one container instance with one of its probes until it is cancelled. Started and stopped by ``manager``.

A readiness or startup probe that finds nobody listening is tried again after 50 ms, 100 ms and so on within its period: the
kernel refuses such connections, the container never sees them, and a server that needs 80 ms to bind is Ready after 100.
These extra tries count for no threshold.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from component.clock import Clock
from node.kubelet.probes.results import Attempt, Kind, Outcome, Settings, Streak

_FIRST_RETRY = 0.05
_RETRY_GROWTH = 1.6


@dataclass(frozen=True, slots=True)
class Hooks:
    """What a worker calls: one attempt, the news of a standing outcome, and the event of a failure."""

    attempt: Callable[[], Awaitable[Attempt]]
    settled: Callable[[Outcome], None]
    failed: Callable[[Attempt], None]


async def work(kind: Kind, settings: Settings, clock: Clock, hooks: Hooks, running_for: float, *, known: bool = False) -> None:
    """Probe until cancelled, or until a liveness or startup probe has failed for good (a new instance gets a new worker).

    ``running_for`` is how long the container has been up already; ``known`` says that it had succeeded before this
    kubelet started, so that nothing is in a hurry.
    """
    streak = Streak(settings)
    succeeded = known
    if (delay := settings.initial_delay - running_for) > 0:
        await clock.sleep(delay)
    while True:
        began = clock.monotonic()
        attempt = await hooks.attempt()
        if not succeeded and kind is not Kind.LIVENESS:
            attempt = await _hurry(attempt, settings, clock, hooks)
        standing = streak.add(attempt.outcome)
        if attempt.outcome is not Outcome.SUCCESS:
            hooks.failed(attempt)
        if standing is not None:
            succeeded = succeeded or standing is Outcome.SUCCESS
            hooks.settled(standing)
            if kind is Kind.STARTUP or (kind is Kind.LIVENESS and standing is Outcome.FAILURE):
                return
        await clock.sleep(max(0.0, settings.period - (clock.monotonic() - began)))


async def _hurry(attempt: Attempt, settings: Settings, clock: Clock, hooks: Hooks) -> Attempt:
    """Repeat a refused attempt, ever more slowly, for the rest of the period."""
    deadline = clock.monotonic() + settings.period
    pause = _FIRST_RETRY
    while attempt.refused and clock.monotonic() + pause < deadline:
        await clock.sleep(pause)
        pause *= _RETRY_GROWTH
        attempt = await hooks.attempt()
    return attempt

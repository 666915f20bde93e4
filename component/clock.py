"""Time as an argument: a Clock is handed to whatever waits or dates something, so that tests move time by hand.

Daemons create one RealClock in their wiring; everything below takes a Clock. Unit tests use FakeClock.
"""

import asyncio
import heapq
import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Timer(Protocol):
    """A call that has been arranged for later."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """Wall time, elapsed time and waiting. The three of one clock move together."""

    def now(self) -> datetime:
        """Wall time in UTC, for what is written down. It may jump; never subtract two of them to measure."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow, for deadlines and durations."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; zero or less gives the loop one turn."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Call ``callback`` on the loop after ``seconds``; needs no task of its own."""
        ...


@asynccontextmanager
async def timeout(clock: Clock, seconds: float) -> AsyncIterator[None]:
    """``asyncio.timeout`` on any clock: raises TimeoutError when the block takes longer than ``seconds``."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(None) as scope:
        timer = clock.call_later(seconds, lambda: scope.reschedule(loop.time()))
        try:
            yield
        finally:
            timer.cancel()


class RealClock:
    """The machine's clock and the running event loop."""

    __slots__ = ()

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(seconds, 0))

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(max(seconds, 0), callback)


class _FakeTimer:
    __slots__ = ("callback", "cancelled")

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock:
    """Virtual time: it stands still until ``advance``, then fires what is due, earliest first, ties in order of arrival.

    After each firing the loop gets ``turns`` turns, so that a task woken at second 1 may arrange something for second 2
    inside one ``advance(3)``. Wall time jumps only by ``jump``. What it does not imitate: code that waits for real I/O sees
    no time pass.
    """

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC), *, turns: int = 25) -> None:
        self._start = start
        self._elapsed = 0.0
        self._turns = turns
        self._order = itertools.count()
        self._timers: list[tuple[float, int, _FakeTimer]] = []

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    def jump(self, seconds: float) -> None:
        """Somebody sets the wall clock."""
        self._start += timedelta(seconds=seconds)

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        timer = self.call_later(seconds, wake)
        try:
            await woken
        finally:
            timer.cancel()

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        timer = _FakeTimer(callback)
        heapq.heappush(self._timers, (self._elapsed + max(seconds, 0), next(self._order), timer))
        return timer

    async def advance(self, seconds: float) -> None:
        """Let ``seconds`` pass and everything due in them happen."""
        until = self._elapsed + seconds
        await self.settle()
        while (due := self.next_due()) is not None and due <= until:
            _, _, timer = heapq.heappop(self._timers)
            self._elapsed = due
            timer.callback()
            await self.settle()
        self._elapsed = until
        await self.settle()

    async def settle(self) -> None:
        """Give ready tasks their turns without letting time pass."""
        for _ in range(self._turns):
            await asyncio.sleep(0)

    def next_due(self) -> float | None:
        """When the earliest live timer fires, in ``monotonic`` time; None when nobody waits."""
        while self._timers and self._timers[0][2].cancelled:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

"""Supervised tasks: named children of one TaskGroup, loops that outlive their errors, and the back-off between tries.

Every daemon's wiring owns one Supervisor; nothing else starts a task. A child that must never stop is given to
``keep``, which logs its failure and starts it again; a child whose failure is the daemon's failure is given to ``start``.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Self

from component import logs
from component.clock import Clock, RealClock

_log = logs.get(__name__)


class Backoff:
    """Growing pauses: ``initial``, then times ``factor`` up to ``cap``, each plus up to ``jitter`` of itself.

    When more than ``reset_after`` seconds lie between two calls of ``step`` it starts over.
    """

    def __init__(
        self,
        initial: float = 0.8,
        cap: float = 30.0,
        *,
        factor: float = 2.0,
        jitter: float = 1.0,
        reset_after: float = 120.0,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._initial, self._cap, self._factor, self._jitter = initial, cap, factor, jitter
        self._reset_after = reset_after
        self._clock = clock or RealClock()
        self._random = rng or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._next = initial
        self._last: float | None = None

    def step(self) -> float:
        """The next pause in seconds."""
        now = self._clock.monotonic()
        if self._last is not None and now - self._last > self._reset_after:
            self._next = self._initial
        self._last = now
        pause = self._next
        self._next = min(self._next * self._factor, self._cap)
        return pause + pause * self._jitter * self._random.random()

    def reset(self) -> None:
        self._next = self._initial


def jitter(seconds: float, factor: float, rng: random.Random | None = None) -> float:
    """``seconds`` plus up to ``factor`` of itself, so that many clients do not act in step."""
    return seconds + seconds * factor * (rng.random() if rng else random.random())  # noqa: S311 - spreads load only


async def every(
    clock: Clock, period: float, act: Callable[[], Awaitable[object]], *, name: str, jitter_factor: float = 0.0
) -> None:
    """Call ``act`` now and then ``period`` seconds after each call ended, for ever. Its errors are logged, never raised."""
    while True:
        try:
            await act()
        except Exception as error:
            _log.error("Periodic task failed, it will be tried again", task=name, err=error)
            _end_if_cancelled()
        await clock.sleep(jitter(period, jitter_factor))


def _end_if_cancelled() -> None:
    """What fails while it is being cancelled raises its own error in place of the cancellation, which must not be lost."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def keep_running(name: str, run: Callable[[], Awaitable[object]], *, clock: Clock, backoff: Backoff | None = None) -> None:
    """Run until it returns by itself; after an error, log it, pause and run again."""
    pauses = backoff or Backoff(clock=clock)
    while True:
        try:
            await run()
            return
        except Exception as error:
            _end_if_cancelled()
            pause = pauses.step()
            _log.error("Task failed, restarting it", task=name, err=error, after=f"{pause:.1f}s")
        await clock.sleep(pause)


class Supervisor:
    """An ``asyncio.TaskGroup`` whose children have names. Leaving the block waits for them; ``stop`` cancels them all."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or RealClock()
        self._group = asyncio.TaskGroup()
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._group.__aexit__(kind, error, trace)

    def start(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A child whose failure cancels its siblings and surfaces where the block ends."""
        task = self._group.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def keep(self, name: str, run: Callable[[], Awaitable[object]], backoff: Backoff | None = None) -> asyncio.Task[Any]:
        """A child that is restarted with back-off whenever it fails."""
        return self.start(name, keep_running(name, run, clock=self._clock, backoff=backoff))

    def every(
        self, name: str, period: float, act: Callable[[], Awaitable[object]], jitter_factor: float = 0.0
    ) -> asyncio.Task[Any]:
        """A child that calls ``act`` periodically; see :func:`every`."""
        return self.start(name, every(self._clock, period, act, name=name, jitter_factor=jitter_factor))

    def stop(self) -> None:
        """Cancel every child; the block then ends without an error."""
        for task in list(self._tasks):
            task.cancel()

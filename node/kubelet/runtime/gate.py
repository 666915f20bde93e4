"""Bounds how many sandboxes and containers are started at once, containers first.

Starting 30 pods at once on two cores takes as long as starting them four by four, but then the first are Ready early.
Finishing a begun pod goes before beginning another.
"""

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar, cast

CONTAINER, SANDBOX = 0, 1
_PATIENCE = 10.0

Result = TypeVar("Result")


class Gate:
    """A counting semaphore whose waiters have a priority (lower goes first), fair among equals."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._order = itertools.count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    @asynccontextmanager
    async def passing(self, priority: int) -> AsyncIterator[None]:
        """Hold one slot inside the block."""
        await self._acquire(priority)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, priority: int) -> None:
        if self._free > 0:
            self._free -= 1
            return
        mine = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (priority, next(self._order), mine))
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._release()  # the slot had been handed over already
            raise

    def _release(self) -> None:
        while self._waiting:
            _, _, waiter = heapq.heappop(self._waiting)
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free += 1


async def to_its_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Await ``work``; when cancelled, still give it a while to end before the cancellation goes on.

    For calls that create something: a sandbox that appears after its pod was torn down would be nobody's.
    """
    failures: list[Exception] = []
    async with asyncio.TaskGroup() as group:
        task = group.create_task(_caught(work, failures))
        try:
            result = await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait({task}, timeout=_PATIENCE)
            raise
    if failures:
        raise failures[0]
    return cast("Result", result)


async def _caught(work: Coroutine[Any, Any, Result], failures: list[Exception]) -> Result | None:
    """Keeps a failure out of the group's own hands, which would wrap it."""
    try:
        return await work
    except Exception as error:
        failures.append(error)
        return None

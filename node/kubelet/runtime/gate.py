"""Bounds how many sandboxes and containers are started at once, containers first.

Starting 30 pods at once on two cores takes as long as starting them four by four, but then the first are Ready early.
Finishing a begun pod goes before beginning another.
"""

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

CONTAINER, SANDBOX = 0, 1


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

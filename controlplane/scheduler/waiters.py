"""Bindings that wait until one of some objects changes, each known by its key. Used by ``storage`` and ``claims``."""

import asyncio
from collections.abc import Iterable

from component.clock import Clock, timeout


class Waiters:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[str, set[asyncio.Event]] = {}

    async def change(self, keys: Iterable[str], seconds: float) -> None:
        """Until one of them is woken, or the time is up."""
        listed, event = list(keys), asyncio.Event()
        for key in listed:
            self._waiting.setdefault(key, set()).add(event)
        try:
            async with timeout(self._clock, seconds):
                await event.wait()
        except TimeoutError:
            pass
        finally:
            for key in listed:
                held = self._waiting[key]
                held.discard(event)
                if not held:
                    del self._waiting[key]

    def wake(self, key: str) -> None:
        for event in self._waiting.get(key, ()):
            event.set()

    def wake_all(self) -> None:
        for key in self._waiting:
            self.wake(key)

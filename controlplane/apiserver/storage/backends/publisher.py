"""Live watches of one backend: each commit is published here, each watch follows from any revision.

Used by ``sqlite`` and ``memory``. A watch reads history first and then lives on a bounded queue; when it falls behind by
more than the bound, its queue is dropped and it reads history again from where it was. So the source never waits and
nothing is lost or repeated.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from controlplane.apiserver.storage.interface import BackendEvent

QUEUE_BOUND = 10_000  # events that one watch may lag behind before it goes back to reading history
HISTORY_PAGE = 1_000  # events read from history at a time

ReadHistory = Callable[[int, int], Awaitable[tuple[list[BackendEvent], int]]]
"""``read(after, up_to)`` gives events with after < revision <= reached and ``reached``; raises CompactedError."""


class _Subscription:
    __slots__ = ("closed", "lagging", "queue", "waiter")

    def __init__(self) -> None:
        self.queue: list[BackendEvent] = []
        self.lagging = True
        self.closed = False
        self.waiter: asyncio.Future[None] | None = None

    def push(self, events: Sequence[BackendEvent]) -> None:
        if self.lagging:
            return
        if len(self.queue) + len(events) > QUEUE_BOUND:
            self.queue, self.lagging = [], True
        else:
            self.queue.extend(events)
        self.wake()

    def wake(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    async def take(self) -> list[BackendEvent]:
        """Everything queued, waiting for it; empty when lagging or closed."""
        if not (self.queue or self.lagging or self.closed):
            self.waiter = asyncio.get_running_loop().create_future()
            try:
                await self.waiter
            finally:
                self.waiter = None
        queued, self.queue = self.queue, []
        return queued


class Publisher:
    """Hands committed events to every watch. Lives on the event loop; not for other threads."""

    def __init__(self, current: Callable[[], int], read_history: ReadHistory) -> None:
        self._current = current
        self._read_history = read_history
        self._subscriptions: set[_Subscription] = set()
        self._closed = False

    def publish(self, events: Sequence[BackendEvent]) -> None:
        for subscription in self._subscriptions:
            subscription.push(events)

    def close(self) -> None:
        self._closed = True
        for subscription in self._subscriptions:
            subscription.closed = True
            subscription.wake()

    async def follow(self, prefix: str, after: int) -> AsyncIterator[Sequence[BackendEvent]]:
        """The watch itself; see ``Backend.watch``."""
        subscription = _Subscription()
        subscription.closed = self._closed
        self._subscriptions.add(subscription)
        try:
            position = after
            while not subscription.closed:
                if subscription.lagging:
                    subscription.queue, subscription.lagging = [], False
                    target = self._current()
                    while True:  # asks at least once, so that a compacted position is noticed
                        events, reached = await self._read_history(position, target)
                        position = max(position, reached)
                        if chosen := [event for event in events if event.key.startswith(prefix)]:
                            yield chosen
                        if position >= target:
                            break
                events = await subscription.take()
                if not events:
                    continue
                chosen = [event for event in events if event.revision > position and event.key.startswith(prefix)]
                position = max(position, events[-1].revision)
                if chosen:
                    yield chosen
        finally:
            self._subscriptions.discard(subscription)

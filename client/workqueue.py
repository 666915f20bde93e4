"""The work queue between event handlers and reconcilers: an order of keys plus two sets, *dirty* and *processing*.

Handlers ``add`` keys; a controller's workers loop over ``get``, reconcile, ``forget`` or ``add_rate_limited``, ``done``.

Guarantees:

- Fair: keys are handed out in the order in which they were added.
- Stingy: a key added many times before it is handed out is handed out once.
- Alone: no key is in the hands of two workers; one added meanwhile is handed out again after ``done``.
- A delayed key comes out no earlier than asked (the earliest of several delays counts) and never twice for one delay.
- After ``shut_down`` nothing is added; ``get`` hands out what is left and then raises ShutDownError.

Not guaranteed: an order between keys that become due at the same moment, nor any bound on distinct keys: producers name
objects, so the queue is bounded by what the store holds.
"""

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from client.ratelimit import RateLimiter, default_limiter
from component.clock import Clock, RealClock, Timer
from component.metrics import Registry

Key = TypeVar("Key", bound=Hashable)


class ShutDownError(Exception):
    """The queue is shut down and empty: the worker ends."""


class WorkQueue(Generic[Key]):
    """See the module for the guarantees. All methods belong to the loop's thread."""

    def __init__(
        self,
        name: str,
        clock: Clock | None = None,
        limiter: RateLimiter | None = None,
        metrics: Registry | None = None,
    ) -> None:
        self.name = name
        self._clock = clock or RealClock()
        self._limiter = limiter or default_limiter(self._clock)
        self._order: deque[Key] = deque()
        self._dirty: set[Key] = set()
        self._processing: set[Key] = set()
        self._getters: deque[asyncio.Future[None]] = deque()
        self._drained: list[asyncio.Future[None]] = []
        self._shutting_down = False
        self._delays = _Delays(self._clock, self.add)
        self._metrics = _QueueMetrics(metrics, name, self._clock) if metrics is not None else None

    def __len__(self) -> int:
        return len(self._order)

    @property
    def shutting_down(self) -> bool:
        return self._shutting_down

    def add(self, key: Key) -> None:
        """Mark a key as needing work."""
        if self._shutting_down or key in self._dirty:
            return
        self._dirty.add(key)
        if self._metrics:
            self._metrics.added(key)
        if key not in self._processing:
            self._append(key)

    def add_after(self, key: Key, seconds: float) -> None:
        """Add the key once ``seconds`` have passed; at once for zero or less."""
        if self._shutting_down:
            return
        if seconds <= 0:
            self.add(key)
        else:
            self._delays.put(key, seconds)

    def add_rate_limited(self, key: Key) -> None:
        """Add the key again after a failure, when the limiter says so."""
        if self._metrics and not self._shutting_down:
            self._metrics.retried()
        self.add_after(key, self._limiter.when(key))

    def forget(self, key: Key) -> None:
        """The key's failures no longer count."""
        self._limiter.forget(key)

    def retries(self, key: Key) -> int:
        return self._limiter.retries(key)

    async def get(self) -> Key:
        """Wait for a key and take it; ``done`` must follow. Raises ShutDownError."""
        while not self._order:
            if self._shutting_down:
                raise ShutDownError(self.name)
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except BaseException:
                # cancelled after being woken: the key it was woken for belongs to the next in line
                if getter.done() and not getter.cancelled():
                    self._wake_one()
                elif getter in self._getters:
                    self._getters.remove(getter)
                raise
        key = self._order.popleft()
        self._dirty.discard(key)
        self._processing.add(key)
        if self._metrics:
            self._metrics.taken(key, len(self._order))
        return key

    def done(self, key: Key) -> None:
        """The work on a taken key ended, well or not; if it was added meanwhile it goes to the end of the queue."""
        self._processing.discard(key)
        if self._metrics:
            self._metrics.finished(key)
        if key in self._dirty:
            self._append(key)
        if not self._processing:
            self._resolve_drained()

    def shut_down(self) -> None:
        """Refuse further keys, drop delayed ones and wake all workers."""
        self._shutting_down = True
        self._delays.clear()
        while self._getters:
            self._wake_one()

    async def shut_down_with_drain(self) -> None:
        """``shut_down``, then wait until every key in a worker's hands is done."""
        self.shut_down()
        if self._processing or self._order:
            waiter = asyncio.get_running_loop().create_future()
            self._drained.append(waiter)
            await waiter

    def _append(self, key: Key) -> None:
        self._order.append(key)
        if self._metrics:
            self._metrics.depth(len(self._order))
        self._wake_one()

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _resolve_drained(self) -> None:
        if self._order:
            return
        for waiter in self._drained:
            if not waiter.done():
                waiter.set_result(None)
        self._drained.clear()


class _Delays(Generic[Key]):
    """Keys that wait for their time: a heap, the earliest due time per key, and one timer for the head."""

    def __init__(self, clock: Clock, release: Callable[[Key], None]) -> None:
        self._clock, self._release = clock, release
        self._heap: list[tuple[float, int, Key]] = []
        self._due: dict[Key, float] = {}
        self._order = itertools.count()
        self._timer: Timer | None = None
        self._timer_due = 0.0

    def put(self, key: Key, seconds: float) -> None:
        due = self._clock.monotonic() + seconds
        if key in self._due and self._due[key] <= due:
            return
        self._due[key] = due
        heapq.heappush(self._heap, (due, next(self._order), key))
        if self._timer is None or due < self._timer_due:
            self._arm(due, seconds)

    def clear(self) -> None:
        self._heap.clear()
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, due: float, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due = due
        self._timer = self._clock.call_later(seconds, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        # the event loop may wake a hair early; a key whose time is that close is let go
        while self._heap and self._heap[0][0] <= now + 0.001:
            due, _, key = heapq.heappop(self._heap)
            # an entry superseded by an earlier one for the same key is stale
            if self._due.get(key) == due:
                del self._due[key]
                self._release(key)
        if self._heap:
            self._arm(self._heap[0][0], self._heap[0][0] - now)


class _QueueMetrics:
    """Upstream's ``workqueue_*`` series for one queue."""

    def __init__(self, registry: Registry, name: str, clock: Clock) -> None:
        labels = ("name",)
        buckets = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
        self._clock = clock
        self._depth = registry.gauge("workqueue_depth", "Current depth of workqueue", labels).labels(name)
        self._adds = registry.counter("workqueue_adds_total", "Total number of adds handled by workqueue", labels).labels(name)
        self._retries = registry.counter(
            "workqueue_retries_total", "Total number of retries handled by workqueue", labels
        ).labels(name)
        self._wait = registry.histogram(
            "workqueue_queue_duration_seconds", "How long in seconds an item stays in workqueue before being requested.",
            labels, buckets,
        ).labels(name)  # fmt: skip
        self._work = registry.histogram(
            "workqueue_work_duration_seconds", "How long in seconds processing an item from workqueue takes.",
            labels, buckets,
        ).labels(name)  # fmt: skip
        self._added: dict[Hashable, float] = {}
        self._started: dict[Hashable, float] = {}

    def added(self, key: Hashable) -> None:
        self._adds.inc()
        self._added.setdefault(key, self._clock.monotonic())

    def depth(self, length: int) -> None:
        self._depth.set(length)

    def retried(self) -> None:
        self._retries.inc()

    def taken(self, key: Hashable, length: int) -> None:
        now = self._clock.monotonic()
        self._depth.set(length)
        self._wait.observe(now - self._added.pop(key, now))
        self._started[key] = now

    def finished(self, key: Hashable) -> None:
        now = self._clock.monotonic()
        self._work.observe(now - self._started.pop(key, now))

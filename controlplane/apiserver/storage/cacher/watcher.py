"""One client's watch: frames from the past, then the present as it happens, and bookmarks in between.

Made by ``cacher.watch``; fed by ``dispatch`` without ever waiting; read by ``endpoints``. The queue is bounded: a reader
that falls behind by QUEUE_BOUND frames or BYTES_BOUND bytes finds its watch ended, lists again and starts anew, as with upstream.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import islice

from controlplane.apiserver.storage.cacher.event import Event
from controlplane.apiserver.storage.frames import Frame
from controlplane.apiserver.storage.interface import Matches

QUEUE_BOUND = 4_000
BYTES_BOUND = 32 * 1024 * 1024  # of objects: a few thousand frames of the largest ones would be gigabytes
BATCH = 200  # frames given out at once, so that one connection does not hold up the others
BOOKMARK_SECONDS = 60.0
BOOKMARK_BEFORE_END = 2.0


class Watcher:
    """See ``Watch``."""

    def __init__(self, prefix: str, matches: Matches | None, after: int, initial: Iterator[Frame] | None) -> None:
        self.prefix, self.matches, self.after = prefix, matches, after
        self._initial = initial
        self._queue: deque[Frame] = deque()
        self._bytes = 0  # of the objects in the queue
        self._waiter: asyncio.Future[None] | None = None
        self._ready: Callable[[], None] | None = None
        self._closed = False
        self.overrun = False  # ended because its reader was too slow
        self._timer: asyncio.TimerHandle | None = None
        self._on_close: Callable[[Watcher], None] | None = None
        self._on_caught_up: Callable[[], None] | None = None

    # ------------------------------------------------------------------ the source's side

    def offer(self, event: Event) -> None:
        """Queue what this watcher is to be told of the event."""
        if event.revision <= self.after:
            return
        frame = event.frame(self.matches)
        if frame is not None:
            self.push(frame)

    def push(self, frame: Frame) -> None:
        queue = self._queue
        size = len(frame.entry.item)
        if len(queue) >= QUEUE_BOUND or (queue and self._bytes + size > BYTES_BOUND):
            self.overrun = True
            self.close()
            return
        queue.append(frame)
        self._bytes += size
        if len(queue) == 1:
            self._wake()

    def end(self) -> None:
        """No more frames will come: the reader gets what is queued, then the end."""
        self._detach()
        self._closed = True
        self._wake()

    def end_after_initial(self) -> None:
        """For a watch that only says why it cannot be."""
        self._closed = True

    def attach(self, on_close: Callable[["Watcher"], None]) -> None:
        self._on_close = on_close

    def send_bookmarks(self, make: Callable[[], Frame], timeout: float) -> None:
        """Push a bookmark every minute, and one shortly before the time is over."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout - BOOKMARK_BEFORE_END if timeout > 0 else None

        def send() -> None:
            frame = make()
            if not self._queue and frame.revision > self.after:
                self.push(frame)
            schedule()

        def schedule() -> None:
            when = loop.time() + BOOKMARK_SECONDS
            if end is not None and loop.time() < end < when:
                when = end
            if not self._closed:
                self._timer = loop.call_at(when, send)

        schedule()

    # ------------------------------------------------------------------ the reader's side

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self

    async def __anext__(self) -> Frame:
        if self._initial is not None:
            frame = next(self._initial, None)
            if frame is not None:
                return frame
            self._caught_up()
        if not self._queue:
            await self._more()
            if not self._queue:
                raise StopAsyncIteration
        return self._pop()

    async def batch(self) -> Sequence[Frame]:
        frames = self.take()
        if not frames and not self._closed:
            await self._more()
            frames = self.take()
        return frames

    def push_to(self, ready: Callable[[], None] | None) -> bool:
        if ready is not None and (self._closed or self._queue or self._initial is not None):
            return False
        self._ready = ready
        return True

    def take(self) -> Sequence[Frame]:
        if self._initial is not None:
            frames = list(islice(self._initial, BATCH))
            if len(frames) < BATCH:
                self._caught_up()
            if frames:
                return frames
        queue = self._queue
        if len(queue) <= BATCH:
            frames = list(queue)
            queue.clear()
            self._bytes = 0
            return frames
        return [self._pop() for _ in range(BATCH)]

    def when_caught_up(self, act: Callable[[], None]) -> None:
        if self._initial is None:
            act()
        else:
            self._on_caught_up = act

    def _caught_up(self) -> None:
        self._initial = None
        act, self._on_caught_up = self._on_caught_up, None
        if act is not None:
            act()

    def _pop(self) -> Frame:
        frame = self._queue.popleft()
        self._bytes -= len(frame.entry.item)
        return frame

    def close(self) -> None:
        self._queue.clear()
        self._bytes = 0
        self._initial = None
        self.end()

    def _wake(self) -> None:
        if self._ready is not None:
            self._ready()
        elif self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _more(self) -> None:
        """Until a frame is queued or the watch has ended."""
        if self._closed:
            return
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _detach(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._on_close is not None:
            self._on_close(self)
            self._on_close = None

"""Who has something to send: one callback of the loop serves every watch that an event concerns, instead of a task each.

One per server, in ``watch.OpenWatches``. Waking a task costs more than encrypting and sending a small event. What is left is
the kernel's price of a write, so where many watch the same, one write carries what comes within a pace: the first event
goes out at once, those that follow it closely go together. The pace is set by what a round of writes takes, so that a crowd
gets a fixed part of the loop's time, however large it is: up to the half second that an event may be kept. Few watchers are never
kept waiting.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

AT_ONCE = 64  # watches served before the loop gets another turn
CROWD = 32  # watches to be served together that make the next event wait
PART = 1 / 15  # of the time, for writing to a crowd
PACES = 0.02, 0.5  # seconds between two writes to the same watch while there is a crowd: at least, at most


class Sender(Protocol):
    served: float  # when ``send`` was last called, by the loop's clock; the fanout sets it

    def send(self) -> None:
        """Write what is ready. Does not raise."""
        ...


class Fanout:
    """Serves senders in the order in which they became ready. A sender is added once for each time it runs dry."""

    def __init__(self, spent: Callable[[], float] = time.thread_time) -> None:
        """``spent`` says how many seconds of processor time there have been; tests replace it."""
        self._spent = spent
        self._loop = asyncio.get_running_loop()
        self._ready: deque[Sender] = deque()
        self._waiting: list[Sender] = []  # for the end of the pace
        self._scheduled = False
        self._served = 0  # since the ready ones were last all served
        self._taken = 0.0  # seconds of the processor for those
        self._pace = PACES[0]
        self._crowded_until = 0.0

    def add(self, sender: Sender) -> None:
        now = self._loop.time()
        if now < self._crowded_until and sender.served > now - self._pace:
            if not self._waiting:
                self._loop.call_at(self._crowded_until, self._go_on)
            self._waiting.append(sender)
            return
        self._ready.append(sender)
        self._schedule()

    def _go_on(self) -> None:
        self._ready.extend(self._waiting)
        self._waiting = []
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._serve)

    def _serve(self) -> None:
        ready, now, began = self._ready, self._loop.time(), self._spent()
        count = min(len(ready), AT_ONCE)
        for _ in range(count):
            sender = ready.popleft()
            sender.served = now
            sender.send()
        self._served += count
        self._taken += self._spent() - began
        if self._served >= CROWD:
            self._pace = min(max(self._taken / PART, PACES[0]), PACES[1])
            self._crowded_until = now + self._pace
        self._scheduled = False
        if ready:
            self._schedule()
        else:
            self._served, self._taken = 0, 0.0

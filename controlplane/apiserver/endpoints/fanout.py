"""Who has something to send: one callback of the loop serves every watch that an event concerns, instead of a task each.

One per server, in ``watch.OpenWatches``. Waking a task costs more than encrypting and sending a small event. What is left is
the kernel's price of a write, so where many watch the same, one write carries what comes within ``PACE``: the first event
goes out at once, those that follow it closely go together. Few watchers are never kept waiting.
"""

import asyncio
from collections import deque
from typing import Protocol

AT_ONCE = 64  # watches served before the loop gets another turn
CROWD = 32  # watches to be served together that make the next event wait
PACE = 0.02  # seconds between two writes to the same watch while there is a crowd


class Sender(Protocol):
    served: float  # when ``send`` was last called, by the loop's clock; the fanout sets it

    def send(self) -> None:
        """Write what is ready. Does not raise."""
        ...


class Fanout:
    """Serves senders in the order in which they became ready. A sender is added once for each time it runs dry."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ready: deque[Sender] = deque()
        self._waiting: list[Sender] = []  # for the end of the pace
        self._scheduled = False
        self._served = 0  # since the ready ones were last all served
        self._crowded_until = 0.0

    def add(self, sender: Sender) -> None:
        now = self._loop.time()
        if now < self._crowded_until and sender.served > now - PACE:
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
        ready, now = self._ready, self._loop.time()
        count = min(len(ready), AT_ONCE)
        for _ in range(count):
            sender = ready.popleft()
            sender.served = now
            sender.send()
        self._served += count
        if self._served >= CROWD:
            self._crowded_until = now + PACE
        self._scheduled = False
        if ready:
            self._schedule()
        else:
            self._served = 0

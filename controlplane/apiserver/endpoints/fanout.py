"""Who has something to send: one callback of the loop serves every watch that an event concerns, instead of a task each.

One per server, in ``watch.OpenWatches``. Waking a task costs more than encrypting and sending a small event.
"""

import asyncio
from collections import deque
from typing import Protocol

AT_ONCE = 64  # watches served before the loop gets another turn


class Sender(Protocol):
    def send(self) -> None:
        """Write what is ready. Does not raise."""
        ...


class Fanout:
    """Serves senders in the order in which they became ready. A sender is added once for each time it runs dry."""

    def __init__(self) -> None:
        self._ready: deque[Sender] = deque()
        self._scheduled = False

    def add(self, sender: Sender) -> None:
        self._ready.append(sender)
        if not self._scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._scheduled = True
        asyncio.get_running_loop().call_soon(self._serve)

    def _serve(self) -> None:
        ready = self._ready
        for _ in range(min(len(ready), AT_ONCE)):
            ready.popleft().send()
        if ready:
            self._schedule()
        else:
            self._scheduled = False

"""One heavy piece of work in each turn of the event loop, whoever it is for: rows of a table, a piece of a long answer.

Whatever takes milliseconds asks ``take_turn`` before each piece. Alone, one goes on at once; many at a time take it in turns, and
between two of them the loop looks after connections and short requests.
"""

import asyncio
from collections import deque
from weakref import WeakKeyDictionary


class Turns:
    """Of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._taken = False

    async def take(self) -> None:
        """Returns when it is the caller's turn."""
        if not self._taken:
            self._taken = True
            self._loop.call_soon(self._next)
            return
        turn: asyncio.Future[None] = self._loop.create_future()
        self._waiting.append(turn)
        await turn

    def _next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # or its request has gone
                turn.set_result(None)
                self._loop.call_soon(self._next)
                return
        self._taken = False


_TURNS: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()


async def take_turn() -> None:
    loop = asyncio.get_running_loop()
    turns = _TURNS.get(loop)
    if turns is None:
        turns = _TURNS[loop] = Turns(loop)
    await turns.take()

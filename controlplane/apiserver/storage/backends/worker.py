"""One thread that does blocking work for an event loop, in order. Used by ``sqlite``, for reading and for writing.

A plain queue and thread: an executor's futures and locks cost more than half of a small write.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeVar

_T = TypeVar("_T")


class Worker:
    """``submit`` is for calls that report by themselves and never raise; ``run`` waits for an answer."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(self, call: Callable[[], None]) -> None:
        self._calls.put(call)

    async def run(self, call: Callable[[], _T]) -> _T:
        answer: asyncio.Future[_T] = self._loop.create_future()

        def work() -> None:
            try:
                result = call()
            except Exception as error:
                self._loop.call_soon_threadsafe(_fail, answer, error)
            else:
                self._loop.call_soon_threadsafe(_resolve, answer, result)

        self._calls.put(work)
        return await answer

    def close(self) -> None:
        """Do what is queued, then stop. Blocks; not for the loop."""
        self._calls.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call  # an idle thread holds on to nothing


def _resolve(answer: "asyncio.Future[_T]", result: _T) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail(answer: "asyncio.Future[_T]", error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)

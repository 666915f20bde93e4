"""The one watch that all caches of a process share, and how far it has come.

Started by ``apiserver``; each ``Cacher`` registers its prefix. Because the watch covers every key, its position is
progress for every collection: an idle one is as fresh as a busy one, and bookmarks cost nothing.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from controlplane.apiserver.storage.interface import Backend, BackendEvent, CompactedError, StorageUnavailableError

RETRY_SECONDS = 1.0

_log = logging.getLogger(__name__)


class Consumer(Protocol):
    """A cache of one collection."""

    def apply(self, event: BackendEvent) -> None: ...

    async def reload(self) -> None:
        """Events were missed: start over from what the backend holds."""
        ...

    def stop(self) -> None: ...


class Feed:
    """Run :meth:`run` in a task that lives as long as the caches; without it their writes wait for ever."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.revision = 0  # everything up to here has been applied by every cache
        self._consumers: dict[str, Consumer] = {}
        self._started = asyncio.Event()
        self._ended = False
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    async def run(self) -> None:
        """Until cancelled, or the backend is closed."""
        try:
            await self._begin()
            while True:
                try:
                    async for events in self.backend.watch("", self.revision):
                        self._apply(events)
                    return
                except CompactedError as error:
                    _log.warning("storage: missed changes (%s); loading all caches again", error)
                    await self._reload()
                except StorageUnavailableError as error:
                    _log.warning("storage: watch failed, trying again: %s", error)
                    await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._end()

    async def started(self) -> None:
        await self._started.wait()

    def register(self, prefix: str, consumer: Consumer) -> None:
        """Events under ``prefix``, ``/registry/<resource>/``, go to ``consumer`` from now on."""
        if prefix in self._consumers:
            raise ValueError(f"{prefix} has a cache already")
        self._consumers[prefix] = consumer

    def unregister(self, prefix: str) -> None:
        self._consumers.pop(prefix, None)

    async def reached(self, revision: int) -> None:
        """Until every cache holds what was true at ``revision``. Raises StorageUnavailableError when that will not be."""
        if self.revision >= revision:
            return
        if self._ended:
            raise StorageUnavailableError("the watch of the storage has ended: the server is shutting down")
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((revision, waiter))
        try:
            await waiter
        finally:
            if waiter.cancelled():
                self._waiters = [waiting for waiting in self._waiters if waiting[1] is not waiter]

    async def _begin(self) -> None:
        while not self._started.is_set():
            try:
                self._advance(await self.backend.current_revision())
                self._started.set()
            except StorageUnavailableError as error:
                _log.warning("storage: not available yet: %s", error)
                await asyncio.sleep(RETRY_SECONDS)

    def _apply(self, events: Sequence[BackendEvent]) -> None:
        consumers = self._consumers
        for event in events:
            key = event.key
            consumer = consumers.get(key[: key.find("/", key.find("/", 1) + 1) + 1])
            if consumer is not None:
                consumer.apply(event)
        self._advance(events[-1].revision)

    def _advance(self, revision: int) -> None:
        self.revision = revision
        if self._waiters:
            still = []
            for waiting in self._waiters:
                if waiting[0] > revision:
                    still.append(waiting)
                elif not waiting[1].done():
                    waiting[1].set_result(None)
            self._waiters = still

    async def _reload(self) -> None:
        try:
            revision = await self.backend.current_revision()
            for consumer in list(self._consumers.values()):
                await consumer.reload()
            self._advance(max(revision, self.revision))
        except StorageUnavailableError as error:
            _log.warning("storage: loading failed, trying again: %s", error)
            await asyncio.sleep(RETRY_SECONDS)

    def _end(self) -> None:
        self._ended = True
        for consumer in list(self._consumers.values()):
            consumer.stop()
        for _, waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(StorageUnavailableError("the watch of the storage has ended: the server is shutting down"))
        self._waiters.clear()

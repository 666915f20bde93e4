"""The one watch that all caches of a process share, and how far it has come.

Started by ``apiserver``; each ``Cacher`` registers its prefix. Because the watch covers every key, its position is
progress for every collection: an idle one is as fresh as a busy one, and bookmarks cost nothing.

It begins a little in the past: caches load what was true at ``base`` and go through the changes since, so that their
history reaches over the restart of this process, and clients take up their watches where they were.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from controlplane.apiserver.storage.interface import Backend, BackendEvent, CompactedError, StorageUnavailableError

RETRY_SECONDS = 1.0
REPLAY = 1_000  # revisions before the start that caches go through again
RECENT_SECONDS = 60.0  # how long caches may start with them
RECENT_BOUND = 10_000  # events held for that

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
        self.base = 0
        self._target = 0  # the revision at the start; reached before any cache may load
        self._recent: list[BackendEvent] | None = []  # everything after base, while caches start
        self._consumers: dict[str, Consumer] = {}
        self._started = asyncio.Event()
        self._ended = False
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []

    async def run(self) -> None:
        """Until cancelled, or the backend is closed."""
        forgetting = asyncio.get_running_loop().call_later(RECENT_SECONDS, self.forget_recent)
        try:
            await self._begin()
            while True:
                try:
                    async for events in self.backend.watch("", self.revision):
                        self._apply(events)
                    return
                except CompactedError as error:
                    await self._skip(error)
                except StorageUnavailableError as error:
                    _log.warning("storage: watch failed, trying again: %s", error)
                    await asyncio.sleep(RETRY_SECONDS)
        finally:
            forgetting.cancel()
            self._end()

    async def started(self) -> None:
        await self._started.wait()

    def register(self, prefix: str, consumer: Consumer) -> None:
        """Events under ``prefix``, of two or three parts, go to ``consumer`` from now on."""
        if prefix in self._consumers:
            raise ValueError(f"{prefix} has a cache already")
        self._consumers[prefix] = consumer

    def unregister(self, prefix: str) -> None:
        self._consumers.pop(prefix, None)

    def recent(self) -> Sequence[BackendEvent] | None:
        """Every event after ``base``; None when they are no longer held."""
        return self._recent

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
        while not self._target:
            try:
                self._target = await self.backend.current_revision()
            except StorageUnavailableError as error:
                _log.warning("storage: not available yet: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
        self._start_at(max(self._target - REPLAY, 1))

    def _start_at(self, base: int) -> None:
        self.base = self.revision = base
        self._recent = []
        if base >= self._target:
            self._started.set()

    async def _skip(self, gap: CompactedError) -> None:
        """Go on after what is no longer held."""
        if not self._started.is_set():
            self._start_at(gap.compacted)
            return
        _log.warning("storage: missed changes (%s); loading all caches again", gap)
        self.forget_recent()
        await self._reload()

    def forget_recent(self) -> None:
        """Every cache that begins with the recent past has begun; later ones begin with the present."""
        self._recent = None

    def _apply(self, events: Sequence[BackendEvent]) -> None:
        consumers = self._consumers
        if self._recent is not None:
            self._recent.extend(events)
            if len(self._recent) > RECENT_BOUND:
                self._recent = None
        for event in events:
            key = event.key
            end = key.find("/", key.find("/", 1) + 1) + 1
            consumer = consumers.get(key[:end])
            if consumer is None:  # /registry/services/specs/
                consumer = consumers.get(key[: key.find("/", end) + 1])
            if consumer is not None:
                consumer.apply(event)
        self._advance(events[-1].revision)
        if self.revision >= self._target:
            self._started.set()

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

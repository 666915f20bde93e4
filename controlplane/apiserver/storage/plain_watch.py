"""The watch of a store without a cache: one backend watch per watcher, each event decoded for it alone.

Used by ``objects`` only; clients are served by ``cacher``, which shares all of this work.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING

from controlplane.apiserver.storage import frames, versions
from controlplane.apiserver.storage.frames import Frame
from controlplane.apiserver.storage.interface import (
    BackendEvent,
    CompactedError,
    KeyValue,
    ListOptions,
    StorageUnavailableError,
    WatchOptions,
)

if TYPE_CHECKING:
    from controlplane.apiserver.storage.objects import PlainStore


async def open_watch(store: "PlainStore", prefix: str, options: WatchOptions) -> "PlainWatch":
    """See ``ObjectStore.watch``."""
    revision = versions.parse_version(options.resource_version)
    initial: list[Frame] = []
    if options.send_initial_events or (not revision and options.send_initial_events is None):
        version = options.resource_version if revision else ""
        listed = await store.list(prefix, ListOptions(resource_version=version, matches=options.matches))
        revision = listed.revision
        initial = [Frame(frames.ADDED, entry, entry.revision) for entry in listed.entries]
        if options.send_initial_events and options.bookmarks:
            kind = store.collection
            initial.append(frames.bookmark(kind.api_version, kind.kind, revision, initial_events_end=True))
    elif not revision:
        revision = await store.backend.current_revision()
    return PlainWatch(store, prefix, options, revision, initial)


class PlainWatch:
    """See ``Watch``. Sends no bookmarks of its own accord."""

    def __init__(self, store: "PlainStore", prefix: str, options: WatchOptions, after: int, initial: list[Frame]) -> None:
        self._store, self._prefix, self._matches, self._after = store, prefix, options.matches, after
        self._ready = deque(initial)
        self._stream = self._frames()
        self._closed = False

    def __aiter__(self) -> AsyncIterator[Frame]:
        return self._stream

    async def batch(self) -> Sequence[Frame]:
        async for frame in self._stream:
            return (frame,)
        return ()

    def when_caught_up(self, act: Callable[[], None]) -> None:
        act()  # few read here, and nobody counts them

    def close(self) -> None:
        self._closed = True

    async def _frames(self) -> AsyncIterator[Frame]:
        while self._ready and not self._closed:
            yield self._ready.popleft()
        try:
            async for batch in self._store.backend.watch(self._prefix, self._after):
                for event in batch:
                    frame = await self._frame(event)
                    if self._closed:
                        return
                    if frame is not None:
                        yield frame
        except CompactedError as gone:
            yield frames.error(versions.watch_expired(gone.asked, gone.compacted))
        except StorageUnavailableError:
            return

    async def _frame(self, event: BackendEvent) -> Frame | None:
        previous = await self._store.backend.get(event.key, event.previous_revision) if event.previous_revision else None
        old = self._store.traced(previous) if previous else None
        new = None
        if event.value is not None:
            new = self._store.traced(KeyValue(event.key, event.value, event.create_revision, event.revision))
        was = old is not None and (self._matches is None or self._matches(old.traits))
        if new is not None and (self._matches is None or self._matches(new.traits)):
            return Frame(frames.MODIFIED if was else frames.ADDED, new, event.revision)
        return Frame(frames.DELETED, old.at(event.revision), event.revision) if was and old is not None else None

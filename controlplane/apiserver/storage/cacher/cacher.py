"""The watch cache of one collection: an ObjectStore that answers reads from memory. See ``ObjectStore``.

Called by ``registry.store``; wraps ``objects.PlainStore`` and hangs on the shared ``feed``. A write waits until its own
event has come through the feed, so whoever got an answer finds it in the next read. What is held is bytes: each event
is decoded once, for its labels and selectable fields, and its bytes get their resourceVersion once.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from apimachinery import errors
from controlplane.apiserver.storage import frames, versions
from controlplane.apiserver.storage.cacher import reads
from controlplane.apiserver.storage.cacher.dispatch import Dispatch
from controlplane.apiserver.storage.cacher.event import Event
from controlplane.apiserver.storage.cacher.feed import Feed
from controlplane.apiserver.storage.cacher.history import History
from controlplane.apiserver.storage.cacher.index import ObjectIndex
from controlplane.apiserver.storage.cacher.recent import RecentLists
from controlplane.apiserver.storage.cacher.sharing import Sharing
from controlplane.apiserver.storage.cacher.snapshots import Snapshots
from controlplane.apiserver.storage.cacher.watcher import Watcher
from controlplane.apiserver.storage.encoding import StoredEntry, entry_of, head_of
from controlplane.apiserver.storage.frames import Frame
from controlplane.apiserver.storage.interface import (
    UNREADABLE,
    BackendEvent,
    Collection,
    CompactedError,
    Condition,
    ListOptions,
    ListResult,
    Matches,
    Operation,
    StorageUnavailableError,
    UnreadableError,
    WatchOptions,
    is_unreadable,
)
from controlplane.apiserver.storage.objects import Change, PlainStore, Plan

LOAD_PAGE = 1_000  # objects decoded between two turns of the loop

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stats:
    """A cache in numbers."""

    objects: int
    watchers: int
    history: int
    revision: int
    events: int  # received since the start
    terminated: int  # watches ended because their reader was too slow


class Cacher:
    """Serves after :meth:`start`. Needs ``feed.run()`` going in some task."""

    def __init__(self, feed: Feed, collection: Collection, store: PlainStore | None = None) -> None:
        self.collection = collection
        self._feed = feed
        self._store = store or PlainStore(feed.backend, collection)
        self._exclusive = feed.backend.exclusive
        self._index = ObjectIndex(collection)
        self._history = History(0)
        self._dispatch = Dispatch(collection)
        self._snapshots = Snapshots()
        self._recent = RecentLists(asyncio.get_running_loop().call_later)
        self._loaded = 0  # the revision of the last load
        self._changed = 0  # the revision of the last change in this collection
        self._waiting: list[BackendEvent] | None = None  # events that came while loading
        self._ready = False
        self._behind = False  # something happened that could not be read
        self._events = 0
        self._head = head_of(collection.api_version, collection.kind)
        self._sharing = Sharing()
        self._time = asyncio.get_running_loop().time

    # ------------------------------------------------------------------ life

    async def start(self) -> None:
        """Load what was true a little while ago and go through the changes since; from then on every change is followed."""
        await self._feed.started()
        self._feed.register(self.collection.prefix, self)
        self._ready, self._waiting = False, []
        try:
            index, revision = await self._read(self._feed.base)
            recent = self._feed.recent()
        except (CompactedError, UnreadableError):
            recent = None  # the past is compacted, or was encrypted with a key that is gone; the present must be readable
        missed = [event for event in recent or () if event.key.startswith(self.collection.prefix)]
        if recent is None or any(map(is_unreadable, missed)):
            await self.reload()
        else:
            self._serve(index, revision, missed)

    async def reload(self) -> None:
        """Start over from the backend. Watches end: their clients list again."""
        self._ready, self._waiting = False, []
        self._dispatch.end_all()
        self._snapshots.clear()
        self._recent.clear()
        index, revision = await self._read(0)
        self._serve(index, revision, self._waiting)

    async def catch_up(self) -> None:
        """Start over if something could not be read and can be now: this server has been given a key. Raises UnreadableError."""
        if self._behind:
            await self._read(0)  # all of it, before anything is given up
            self._behind = False
            await self.reload()

    async def _read(self, at: int) -> tuple[ObjectIndex, int]:
        """All objects as of a revision (0: now), and that revision."""
        index, prefix, start, revision = ObjectIndex(self.collection), self.collection.prefix, "", at
        while True:
            page = await self._feed.backend.range(prefix, start=start, revision=revision, limit=LOAD_PAGE)
            revision = page.revision
            for item in page.items:
                if (entry := self._entry(item.key, item.value, item.mod_revision)) is not None:
                    index.put(entry)
            if not page.more:
                return index, revision
            start = page.items[-1].key + "\0"
            await asyncio.sleep(0)

    def _serve(self, index: ObjectIndex, revision: int, missed: Sequence[BackendEvent]) -> None:
        """Begin with this content and what has happened to it since."""
        self._index, self._history = index, History(revision)
        self._loaded = self._changed = revision
        self._waiting, self._ready = None, True
        for event in missed:
            self.apply(event)

    def stop(self) -> None:
        """End all watches and serve no more."""
        self._ready = False
        self._dispatch.end_all()
        self._recent.clear()

    def close(self) -> None:
        """Leave the feed, for a collection that is no longer served."""
        self._feed.unregister(self.collection.prefix)
        self.stop()

    @property
    def revision(self) -> int:
        """Everything up to here is in the cache."""
        return max(self._feed.revision, self._loaded)

    def __len__(self) -> int:
        return len(self._index)

    def stats(self) -> Stats:
        watches = self._dispatch
        return Stats(len(self._index), len(watches), len(self._history), self.revision, self._events, watches.terminated)

    def apply(self, event: BackendEvent) -> None:
        """Called by the feed, in order."""
        if self._waiting is not None:
            self._waiting.append(event)
            return
        if event.revision <= self._loaded or not self._ready:
            return
        if is_unreadable(event):
            # it exists: what is known of it is better than telling everybody that it was deleted
            self._behind = True
            _log.error("storage: %s at revision %d: no key for it here; its last state is kept", event.key, event.revision)
            return
        entry = None
        if event.value is not None:
            entry = self._entry(event.key, event.value, event.revision)
        self._snapshots.before_change(self._changed, event.revision, self._time(), self._state)
        if self._recent:
            self._recent.clear()
        previous = self._index.put(entry) if entry is not None else self._index.remove(event.key)
        self._changed = event.revision
        self._events += 1
        if entry is None and previous is None:
            return
        change = Event(event.key, event.revision, entry, previous, self._time())
        self._history.append(change)
        self._dispatch.send(change)

    def _state(self) -> list[StoredEntry]:
        return self._index.scan(self.collection.prefix)

    def _entry(self, key: str, value: bytes, revision: int) -> StoredEntry | None:
        try:
            if self.collection.restore is None:
                entry = StoredEntry(key, value, revision, head=self._head)
                traits = self.collection.extract(orjson.loads(value))
            else:
                entry = entry_of(self.collection, key, value, revision, self._head)
                traits = self.collection.extract(entry.decode())
        except Exception:
            if value.startswith(UNREADABLE):
                text = f'unable to transform key "{key}": identity transformer tried to read encrypted data'
                raise UnreadableError(f"{text} (is --encryption-provider-config missing?)") from None
            # One object that something else wrote must not stop the whole server.
            _log.exception("storage: %s at revision %d cannot be read and is left out", key, revision)
            return None
        entry.traits = self._sharing.share(traits)
        return entry

    # ------------------------------------------------------------------ writes

    async def create(
        self, key: str, obj: dict[str, Any], *, ttl: int = 0, conditions: Sequence[Condition] = (), also: Sequence[Operation] = ()
    ) -> StoredEntry:
        return await self._seen(await self._store.create(key, obj, ttl=ttl, conditions=conditions, also=also))

    async def update(self, key: str, change: Change, *, ttl: int = 0, plan: Plan | None = None) -> StoredEntry:
        cached = await self._cached(key)
        return await self._seen(await self._store.update(key, change, ttl=ttl, plan=plan, seen=cached))

    async def delete(
        self, key: str, check: Callable[[dict[str, Any]], None] | None = None, *, also: Sequence[Operation] = ()
    ) -> StoredEntry:
        cached = await self._cached(key)
        entry = await self._store.delete(key, check, also=also, seen=cached)
        await self._reached(entry.revision)
        return entry

    async def _cached(self, key: str) -> StoredEntry | None:
        """What a write may begin with. Only an exclusive backend's cache can say that there is nothing."""
        cached = self._index.entries.get(key)
        if cached is None and self._exclusive and self._ready:
            raise KeyError(key)
        return cached

    async def _seen(self, entry: StoredEntry) -> StoredEntry:
        """Wait for the write to come back, and share the cache's entry for it."""
        await self._reached(entry.revision)
        cached = self._index.entries.get(entry.key)
        return cached if cached is not None and cached.revision == entry.revision else entry

    async def _reached(self, revision: int) -> None:
        if self._feed.revision < revision:
            try:
                await self._feed.reached(revision)
            except StorageUnavailableError as error:
                raise versions.unavailable(error) from error

    def held(self, key: str) -> StoredEntry | None:
        """What is cached under a key, for those who look at each request."""
        return self._index.entries.get(key)

    def all_held(self) -> Sequence[StoredEntry]:
        """Everything that is cached, in the order of keys."""
        return self._index.scan(self.collection.prefix)

    @property
    def changed(self) -> int:
        """The revision of the last change: as long as it is the same, so is everything that is cached."""
        return self._changed

    def volume(self) -> tuple[int, int]:
        """How many objects there are, and how many bytes they are in a list."""
        return len(self._index), self._index.bytes

    # ------------------------------------------------------------------ reads

    async def get(self, key: str, resource_version: str = "") -> StoredEntry:
        if resource_version or not self._exclusive or not self._ready:
            await self.fresh(resource_version, versions.parse_version(resource_version))
        return self._index.entries[key]

    async def list(self, prefix: str, options: ListOptions) -> ListResult:
        reading = versions.understand(prefix, options)
        if reading.mode in (versions.EXACT, versions.CONTINUE):
            await self.fresh("0" if reading.mode == versions.CONTINUE else "N", reading.revision)
            if reading.revision and self._changed > reading.revision:
                return await self._list_past(prefix, reading, options)
        else:
            await self.fresh("" if reading.mode == versions.LATEST else "N", reading.revision)
        return self._list_now(prefix, reading, options)

    def _list_now(self, prefix: str, reading: versions.Reading, options: ListOptions) -> ListResult:
        revision = reading.revision if reading.mode in (versions.EXACT, versions.CONTINUE) and reading.revision else self.revision
        found = None
        if options.matches is None or options.selector:
            key = (prefix, options.selector, reading.start, reading.limit)
            found = self._recent.get(key) or self._recent.put(key, self._choose(prefix, reading, options))
        else:
            found = self._choose(prefix, reading, options)
        token = ""
        if found.continue_token:
            self._snapshots.want()
            token = versions.encode_continue(found.entries[-1].key, prefix, revision)
        return ListResult(found.entries, revision, token, found.remaining, found.memo)

    def _choose(self, prefix: str, reading: versions.Reading, options: ListOptions) -> ListResult:
        """From what is now; revision and token are the caller's to fill in."""
        if not reading.limit and not reading.start:
            narrowed = self._index.narrow(prefix, options.field_equals) if options.field_equals else None
            entries = self._index.scan(prefix) if narrowed is None else narrowed
            return ListResult(reads.select(entries, options.matches), 0)
        limit = reading.limit
        stop = limit or None if options.matches is None else None  # a selector may have to look at all of them
        entries = self._index.scan(prefix, reading.start, stop)
        first, last = self._index.bounds(prefix, reading.start)
        return reads.page(entries, last - first - len(entries), prefix, 0, limit, options.matches)

    async def _list_past(self, prefix: str, reading: versions.Reading, options: ListOptions) -> ListResult:
        """At a revision that has been overtaken: from what was kept of it, from history, or from the backend."""
        state = self._snapshots.get(reading.revision)
        if state is None:
            if reading.limit or reading.revision < self._history.oldest or not await self._is_kept(reading.revision):
                return await self._store.list(prefix, options)  # a page is quickly read; what is compacted is told in its words
            state = reads.before(self._state(), self._history.since(reading.revision))
        entries = reads.cut(state, prefix, reading.start)
        return reads.page(entries, 0, prefix, reading.revision, reading.limit, options.matches)

    async def _is_kept(self, revision: int) -> bool:
        """Whether the backend still has that revision: what is compacted is gone for all servers, though one may remember it."""
        try:
            await self._feed.backend.get(self.collection.prefix, revision)
        except (CompactedError, StorageUnavailableError):
            return False
        return True

    async def fresh(self, resource_version: str, revision: int) -> None:
        """Until the cache may answer a read with this resourceVersion. Raises 429 while loading, 504 when it does not come."""
        if not self._ready:
            raise errors.too_many_requests("storage is (re)initializing", 1)
        if not resource_version and not self._exclusive:
            try:
                revision = await self._feed.backend.current_revision()
            except StorageUnavailableError as error:
                raise versions.unavailable(error) from error
        if revision <= self.revision:
            return
        try:
            async with asyncio.timeout(versions.FRESHNESS_TIMEOUT):
                await self._reached(revision)
        except TimeoutError:
            raise versions.too_large(revision, self.revision) from None

    # ------------------------------------------------------------------ watches

    async def watch(self, prefix: str, options: WatchOptions) -> Watcher:
        revision = versions.parse_version(options.resource_version)
        with_state = options.send_initial_events or (not revision and options.send_initial_events is None)
        await self.fresh(options.resource_version, revision if with_state else 0)
        if with_state:
            after, initial = self.revision, self._initial(prefix, options)
        else:
            after, initial = revision or self.revision, None
            if after < self._history.oldest:
                gone = versions.watch_expired(after, self._history.oldest)
                watcher = Watcher(prefix, options.matches, after, iter((frames.error(gone),)))
                watcher.end_after_initial()
                return watcher
            initial = self._past(prefix, options.matches, after)
        watcher = Watcher(prefix, options.matches, max(after, self.revision), initial)
        self._dispatch.add(watcher, options.field_equals)
        if options.bookmarks:
            watcher.send_bookmarks(self._bookmark, options.timeout)
        return watcher

    def _initial(self, prefix: str, options: WatchOptions) -> Iterator[Frame]:
        """Synthetic ADDED frames of the present state, made as they are read, and the bookmark that ends them."""
        narrowed = self._index.narrow(prefix, options.field_equals) if options.field_equals else None
        entries = reads.select(self._index.scan(prefix) if narrowed is None else narrowed, options.matches)
        end = None
        if options.send_initial_events and options.bookmarks:
            end = frames.bookmark(self.collection.api_version, self.collection.kind, self.revision, initial_events_end=True)
        return reads.initial_frames(entries, end)

    def _past(self, prefix: str, matches: Matches | None, after: int) -> Iterator[Frame] | None:
        events = self._history.since(after)
        return reads.past_frames(events, prefix, matches) if events else None

    def _bookmark(self) -> Frame:
        return frames.bookmark(self.collection.api_version, self.collection.kind, self.revision)

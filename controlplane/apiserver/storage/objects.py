"""Objects over any backend: encoding, guaranteed update, conditions beside the object's own. See ``ObjectStore``.

The cacher wraps it and takes over reads; writes end here and go to the backend. Used alone it reads the backend for
everything, which tests and tools do.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import orjson

from apimachinery import errors
from controlplane.apiserver.storage import plain_watch, versions
from controlplane.apiserver.storage.encoding import StoredEntry, encode, entry_of
from controlplane.apiserver.storage.interface import (
    Backend,
    Collection,
    Commit,
    CompactedError,
    Condition,
    ConditionFailedError,
    Delete,
    FutureRevisionError,
    KeyExistsError,
    KeyValue,
    ListOptions,
    ListResult,
    Matches,
    Operation,
    Put,
    Range,
    Rewriting,
    StorageUnavailableError,
    TooLargeError,
    Watch,
    WatchOptions,
)

PAGE = 500  # keys read at once while a selector looks for enough matching ones

Change = Callable[[dict[str, Any]], "dict[str, Any] | None"]
Plan = Callable[[dict[str, Any], dict[str, Any]], tuple[Sequence[Condition], Sequence[Operation]]]


class PlainStore:
    """An ObjectStore without a cache, for the keys of one collection."""

    def __init__(self, backend: Backend, collection: Collection) -> None:
        self.backend = backend
        self.collection = collection

    # ------------------------------------------------------------------ writes

    async def create(
        self, key: str, obj: dict[str, Any], *, ttl: int = 0, conditions: Sequence[Condition] = (), also: Sequence[Operation] = ()
    ) -> StoredEntry:
        value = encode(obj)
        wanted = (Condition(key, 0), *conditions)
        while True:
            outcome = await self._commit(wanted, (Put(key, value, ttl), *also))
            if outcome.succeeded:
                return StoredEntry(key, value, outcome.revision)
            if outcome.current[0] is not None:
                raise KeyExistsError(key)
            _check_others(wanted, outcome)

    async def update(
        self, key: str, change: Change, *, ttl: int = 0, plan: Plan | None = None, seen: StoredEntry | None = None
    ) -> StoredEntry:
        """As in ``ObjectStore``. ``seen`` is what a cache holds, to spare the first read."""
        while True:
            entry = seen or await self.get(key)
            try:
                new = change(entry.decode())
            except Exception:
                if seen is None or self.backend.exclusive or await self._is_latest(seen):
                    raise
                seen = None  # the refusal may be due to the cache being behind
                continue
            value = entry.value if new is None else encode(new)
            if (new is None or self._same(entry, value)) and not entry.restored and not await self._outdated(key):
                if seen is None or self.backend.exclusive or await self._is_latest(seen):
                    return entry
                seen = None
                continue
            more, also = plan(entry.decode(), new) if plan and new is not None else ((), ())
            wanted = (Condition(key, entry.revision), *more)
            outcome = await self._commit(wanted, (Put(key, value, ttl), *also))
            if outcome.succeeded:
                return StoredEntry(key, value, outcome.revision)
            if _is_same(outcome.current[0], entry):
                _check_others(wanted, outcome)
            seen = self._entry(_existing(key, outcome.current[0]))

    async def delete(
        self,
        key: str,
        check: Callable[[dict[str, Any]], None] | None = None,
        *,
        also: Sequence[Operation] = (),
        seen: StoredEntry | None = None,
    ) -> StoredEntry:
        """As in ``ObjectStore``; the entry carries the revision of the deletion."""
        while True:
            entry = seen or await self.get(key)
            try:
                if check is not None:
                    check(entry.decode())
            except Exception:
                if seen is None or self.backend.exclusive or await self._is_latest(seen):
                    raise
                seen = None
                continue
            outcome = await self._commit((Condition(key, entry.revision),), (Delete(key), *also))
            if outcome.succeeded:
                return entry.at(outcome.revision)
            seen = self._entry(_existing(key, outcome.current[0]))

    async def _commit(self, conditions: Sequence[Condition], operations: Sequence[Operation]) -> Commit:
        try:
            return await self.backend.commit(conditions, operations)
        except StorageUnavailableError as error:
            raise versions.unavailable(error) from error
        except TooLargeError as error:
            raise errors.entity_too_large(str(error)) from error

    def _same(self, entry: StoredEntry, value: bytes) -> bool:
        """Whether the object is what is stored. Where members may come back in another order, bytes alone do not tell."""
        if entry.holds(value) or not getattr(self.backend, "reorders", False):
            return entry.holds(value)
        return bool(orjson.loads(entry.value) == orjson.loads(value))

    async def _is_latest(self, entry: StoredEntry) -> bool:
        return _is_same(await self.backend.get(entry.key), entry)

    # ------------------------------------------------------------------ reads

    async def _outdated(self, key: str) -> bool:
        """Whether an unchanged object is to be written again: encrypted with a key that is no longer the first, another form."""
        if not isinstance(self.backend, Rewriting):
            return False
        try:
            return await self.backend.outdated(key)
        except StorageUnavailableError as error:
            raise errors.service_unavailable(str(error)) from error

    async def get(self, key: str, resource_version: str = "") -> StoredEntry:
        await self._reached(versions.parse_version(resource_version))
        try:
            return self._entry(_existing(key, await self.backend.get(key)))
        except StorageUnavailableError as error:
            raise versions.unavailable(error) from error

    async def list(self, prefix: str, options: ListOptions) -> ListResult:
        reading = versions.understand(prefix, options)
        if reading.mode in (versions.NOT_OLDER, versions.EXACT):
            await self._reached(reading.revision)
        revision = reading.revision if reading.mode in (versions.EXACT, versions.CONTINUE) else 0
        try:
            if options.in_parts and not reading.limit:
                return await self._first_part(prefix, reading, revision, options)
            return await self.read_page(prefix, reading, revision, options)
        except CompactedError:
            if reading.mode == versions.CONTINUE:
                raise versions.continue_expired(prefix, reading.start) from None
            raise versions.list_expired() from None
        except FutureRevisionError:
            raise versions.too_large(revision, await self.backend.current_revision()) from None
        except StorageUnavailableError as error:
            raise versions.unavailable(error) from error

    async def _first_part(self, prefix: str, reading: versions.Reading, revision: int, options: ListOptions) -> ListResult:
        """The first page of everything; the others are read when they are asked for, at the same revision."""
        first = await self.backend.range(prefix, start=reading.start, revision=revision, limit=PAGE)
        rest = self._rest(prefix, first, options.matches) if first.more else None
        return ListResult(self._matching(first, options.matches), first.revision, rest=rest)

    async def _rest(self, prefix: str, page: Range, matches: Matches | None) -> AsyncIterator[Sequence[StoredEntry]]:
        while page.more:
            page = await self.backend.range(prefix, start=page.items[-1].key + "\0", revision=page.revision, limit=PAGE)
            yield self._matching(page, matches)

    def _matching(self, page: Range, matches: Matches | None) -> Sequence[StoredEntry]:
        entries = map(self.traced, page.items)
        return [entry for entry in entries if matches is None or matches(entry.traits)]

    async def read_page(self, prefix: str, reading: versions.Reading, revision: int, options: ListOptions) -> ListResult:
        """Matching entries from ``reading.start`` as of ``revision`` (0: now). Raises what backends raise."""
        entries: list[StoredEntry] = []
        start, limit, matches = reading.start, reading.limit, options.matches
        while True:
            size = (limit if matches is None else max(limit, PAGE)) if limit else 0
            found = await self.backend.range(prefix, start=start, revision=revision, limit=size)
            revision = found.revision
            for at, item in enumerate(found.items):
                entry = self.traced(item)
                if matches is not None and not matches(entry.traits):
                    continue
                entries.append(entry)
                if limit and len(entries) == limit and (found.more or at + 1 < len(found.items)):
                    remaining = found.remaining if matches is None else None
                    return ListResult(entries, revision, versions.encode_continue(entry.key, prefix, revision), remaining)
            if not found.more:
                return ListResult(entries, revision)
            start = found.items[-1].key + "\0"

    def traced(self, item: KeyValue) -> StoredEntry:
        """The entry of a stored value, with its traits."""
        entry = self._entry(item)
        entry.traits = self.collection.extract(entry.decode())
        return entry

    def _entry(self, item: KeyValue) -> StoredEntry:
        return entry_of(self.collection, item.key, item.value, item.mod_revision)

    async def _reached(self, revision: int) -> None:
        """A store alone sees everything there is: a revision that is not there yet is not waited for."""
        if revision and revision > (current := await self.backend.current_revision()):
            raise versions.too_large(revision, current)

    async def watch(self, prefix: str, options: WatchOptions) -> Watch:
        return await plain_watch.open_watch(self, prefix, options)


def _existing(key: str, item: KeyValue | None) -> KeyValue:
    if item is None:
        raise KeyError(key)
    return item


def _is_same(item: KeyValue | None, entry: StoredEntry) -> bool:
    return item is not None and item.mod_revision == entry.revision


def _check_others(wanted: Sequence[Condition], outcome: Commit) -> None:
    """Raise for the first further condition that does not hold; if all hold by now, the caller tries again."""
    for condition, current in zip(wanted[1:], outcome.current[1:], strict=True):
        if (current.mod_revision if current else 0) != condition.revision:
            raise ConditionFailedError(condition.key)

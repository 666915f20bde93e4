"""A backend in memory with the contract of the real ones: for tests, and for clusters that may forget.

It differs in three ways: nothing survives the process; keys expire on the event loop's clock (so virtual time works);
history is kept until ``compact`` unless ``history`` bounds it.
"""

import asyncio
from bisect import bisect_left, insort
from collections.abc import AsyncIterator, Sequence
from itertools import islice

from controlplane.apiserver.storage.backends.ledger import Admitted, Ledger, prefix_end
from controlplane.apiserver.storage.backends.publisher import HISTORY_PAGE, Publisher
from controlplane.apiserver.storage.interface import (
    BackendEvent,
    Commit,
    CompactedError,
    Condition,
    Delete,
    FutureRevisionError,
    KeyValue,
    Operation,
    Range,
)

_Version = tuple[int, bytes | None, int]  # mod_revision, value, create_revision


class MemoryBackend:
    """See ``Backend``. ``history`` is how many changes to keep at least; 0 keeps all until compacted."""

    exclusive = True

    def __init__(self, *, history: int = 0) -> None:
        self._ledger = Ledger(1)  # as etcd: a fresh store is at 1, because clients read 0 as "any"
        self._versions: dict[str, list[_Version]] = {}
        self._ordered: list[str] = []  # every key with a version, living or not
        self._log: list[BackendEvent] = []
        self._compacted = 0
        self._history = history
        self._publisher = Publisher(lambda: self._ledger.head, self._read_history)
        self._timers: dict[str, asyncio.TimerHandle] = {}

    async def current_revision(self) -> int:
        return self._ledger.head

    async def get(self, key: str, revision: int = 0) -> KeyValue | None:
        revision = self._checked(revision)
        version = self._version_at(key, revision)
        return version and KeyValue(key, version[1] or b"", version[2], version[0])

    async def range(self, prefix: str, *, start: str = "", revision: int = 0, limit: int = 0) -> Range:
        revision = self._checked(revision)
        found = [
            KeyValue(key, version[1] or b"", version[2], version[0])
            for key in self._keys(prefix, start)
            if (version := self._version_at(key, revision))
        ]
        if not limit or len(found) <= limit:
            return Range(found, revision)
        return Range(found[:limit], revision, True, len(found) - limit)

    async def commit(self, conditions: Sequence[Condition], operations: Sequence[Operation]) -> Commit:
        if self._ledger.failed(conditions):
            current = [await self.get(condition.key) for condition in conditions]
            return Commit(False, self._ledger.head, tuple(current))
        return Commit(True, self._apply(operations))

    def watch(self, prefix: str, after: int) -> AsyncIterator[Sequence[BackendEvent]]:
        return self._publisher.follow(prefix, after)

    async def compact(self, revision: int) -> None:
        if revision > self._ledger.head:
            raise FutureRevisionError(f"revision {revision} is in the future; the current one is {self._ledger.head}")
        if revision <= self._compacted:
            return
        self._compacted = revision
        del self._log[: self._position(revision)]
        for key, versions in list(self._versions.items()):
            old = bisect_left(versions, (revision + 1,)) - 1
            if old >= 0:
                del versions[: old + (versions[old][1] is None)]
            if not versions:
                del self._versions[key]
                del self._ordered[bisect_left(self._ordered, key)]

    def size(self) -> None:
        return None

    async def close(self) -> None:
        self._publisher.close()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _apply(self, operations: Sequence[Operation]) -> int:
        admitted = self._ledger.admit(operations)
        if admitted is None:
            return self._ledger.head
        for event, ttl in zip(admitted.events, admitted.ttls, strict=True):
            self._remember(event, ttl)
        self._ledger.settle((admitted,))
        self._publisher.publish(admitted.events)
        self._trim(admitted)
        return admitted.revision

    def _remember(self, event: BackendEvent, ttl: int) -> None:
        key = event.key
        self._log.append(event)
        versions = self._versions.get(key)
        if versions is None:
            versions = self._versions[key] = []
            insort(self._ordered, key)
        versions.append((event.revision, event.value, event.create_revision))
        if timer := self._timers.pop(key, None):
            timer.cancel()
        if ttl:
            loop = asyncio.get_running_loop()
            self._timers[key] = loop.call_later(ttl, self._apply, (Delete(key),))

    def _trim(self, admitted: Admitted) -> None:
        """Keep at most twice the wanted history, so that its cost is spread."""
        if not self._history or len(self._log) < 2 * self._history:
            return
        oldest = self._log[-self._history].revision - 1
        for event in self._log[: self._position(oldest)]:
            versions = self._versions.get(event.key, [])
            old = bisect_left(versions, (oldest + 1,)) - 1
            if old >= 0:
                del versions[: old + (versions[old][1] is None)]
            if not versions and self._versions.pop(event.key, None) is not None:
                del self._ordered[bisect_left(self._ordered, event.key)]
        del self._log[: self._position(oldest)]
        self._compacted = max(self._compacted, oldest)

    def _checked(self, revision: int) -> int:
        if revision > self._ledger.head:
            raise FutureRevisionError(f"revision {revision} is in the future; the current one is {self._ledger.head}")
        if revision and revision < self._compacted:
            raise CompactedError(revision, self._compacted)
        return revision or self._ledger.head

    def _version_at(self, key: str, revision: int) -> _Version | None:
        versions = self._versions.get(key, [])
        at = bisect_left(versions, (revision + 1,)) - 1
        return versions[at] if at >= 0 and versions[at][1] is not None else None

    def _keys(self, prefix: str, start: str) -> Sequence[str]:
        end = prefix_end(prefix)
        first = bisect_left(self._ordered, max(prefix, start))
        last = len(self._ordered) if end is None else bisect_left(self._ordered, end)
        return self._ordered[first:last]

    def _position(self, revision: int) -> int:
        """Where in the log the events after ``revision`` begin."""
        return bisect_left(self._log, revision + 1, key=lambda event: event.revision)

    async def _read_history(self, after: int, up_to: int) -> tuple[list[BackendEvent], int]:
        if after < self._compacted:
            raise CompactedError(after, self._compacted)
        first = self._position(after)
        last = self._position(up_to)
        page = list(islice(self._log, first, min(last, first + HISTORY_PAGE)))
        if not page or first + len(page) == last:
            return page, up_to
        reached = page[-1].revision
        page.extend(islice(self._log, first + len(page), self._position(reached)))
        return page, reached

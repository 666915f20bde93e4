"""Who is to be asked about an event: watchers by the exact thing they wait for, so that most are never touched.

Owned by ``cacher``. A watcher sits in exactly one bucket: one key, one value of an indexed field, one namespace, or all.
"""

from collections.abc import Sequence

from controlplane.apiserver.storage.cacher.event import Event
from controlplane.apiserver.storage.cacher.index import exact_key, namespace_prefix
from controlplane.apiserver.storage.cacher.watcher import Watcher
from controlplane.apiserver.storage.interface import Collection

_Bucket = dict[Watcher, None]  # a set that keeps order


class Dispatch:
    """The watchers of one collection."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._all: _Bucket = {}
        self._buckets: dict[tuple[str, str], _Bucket] = {}  # ("key", key), ("prefix", prefix) or (field, value)
        self._fields: dict[str, int] = dict.fromkeys(collection.indexes, 0)  # how many watch each
        self.terminated = 0  # watchers that were too slow

    def __len__(self) -> int:
        return len(self._all) + sum(map(len, self._buckets.values()))

    def add(self, watcher: Watcher, equals: Sequence[tuple[str, str]]) -> None:
        where = self._place(watcher.prefix, equals)
        bucket = self._all if where is None else self._buckets.setdefault(where, {})
        bucket[watcher] = None
        if where is not None and where[0] in self._fields:
            self._fields[where[0]] += 1

        def remove(gone: Watcher) -> None:
            bucket.pop(gone, None)
            self.terminated += gone.overrun
            if where is not None:
                if not bucket:
                    self._buckets.pop(where, None)
                if where[0] in self._fields:
                    self._fields[where[0]] -= 1

        watcher.attach(remove)

    def send(self, event: Event) -> None:
        """Offer the event to everyone whom it may concern."""
        for watcher in tuple(self._all):
            watcher.offer(event)
        if not self._buckets:
            return
        key = event.key
        self._offer(("key", key), event)
        if self._collection.namespaced:
            self._offer(("prefix", key[: key.rfind("/") + 1]), event)
        for field, watching in self._fields.items():
            if watching:
                values = {entry.traits.fields.get(field, "") for entry in (event.entry, event.previous) if entry is not None}
                for value in values:
                    self._offer((field, value), event)

    def end_all(self) -> None:
        for bucket in [self._all, *self._buckets.values()]:
            for watcher in list(bucket):
                watcher.end()

    def _offer(self, where: tuple[str, str], event: Event) -> None:
        bucket = self._buckets.get(where)
        if bucket:
            for watcher in list(bucket):
                if event.key.startswith(watcher.prefix):
                    watcher.offer(event)

    def _place(self, prefix: str, equals: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
        if (key := exact_key(self._collection, prefix, equals)) is not None:
            return ("key", key)
        for field, value in equals:
            if field in self._fields:
                return (field, value)
        narrow = namespace_prefix(self._collection, prefix, equals)
        return None if narrow == self._collection.prefix else ("prefix", narrow)

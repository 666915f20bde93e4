"""The objects of one collection: by key, in key order, and by the values of indexed fields.

Owned by ``cacher``. Key order is a plain sorted list: an insertion into 100,000 keys moves less than a megabyte of memory,
and a namespace is a slice.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence

from controlplane.apiserver.storage.backends.ledger import prefix_end
from controlplane.apiserver.storage.encoding import StoredEntry
from controlplane.apiserver.storage.interface import Collection


class ObjectIndex:
    """Current entries only."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self.entries: dict[str, StoredEntry] = {}
        self.bytes = 0  # of all of them, as lists carry them
        self._keys: list[str] = []
        self._by_field: dict[str, dict[str, set[str]]] = {name: {} for name in collection.indexes}

    def __len__(self) -> int:
        return len(self._keys)

    def put(self, entry: StoredEntry) -> StoredEntry | None:
        """Store and give back what was there."""
        key = entry.key
        previous = self.entries.get(key)
        self.entries[key] = entry
        self.bytes += len(entry.item) - (len(previous.item) if previous is not None else 0)
        if previous is None:
            if not self._keys or key > self._keys[-1]:
                self._keys.append(key)
            else:
                insort(self._keys, key)
        for field, by_value in self._by_field.items():
            new = entry.traits.fields.get(field, "")
            if previous is not None:
                old = previous.traits.fields.get(field, "")
                if old == new:
                    continue
                _drop(by_value, old, key)
            by_value.setdefault(new, set()).add(key)
        return previous

    def remove(self, key: str) -> StoredEntry | None:
        previous = self.entries.pop(key, None)
        if previous is not None:
            self.bytes -= len(previous.item)
            del self._keys[bisect_left(self._keys, key)]
            for field, by_value in self._by_field.items():
                _drop(by_value, previous.traits.fields.get(field, ""), key)
        return previous

    def bounds(self, prefix: str, start: str = "") -> tuple[int, int]:
        """Where the keys with ``prefix`` from ``start`` on begin and end."""
        first = bisect_left(self._keys, max(prefix, start))
        end = prefix_end(prefix)
        return first, len(self._keys) if end is None else bisect_left(self._keys, end, first)

    def scan(self, prefix: str, start: str = "", stop: int | None = None) -> list[StoredEntry]:
        """Entries in key order; ``stop`` is at most how many."""
        if prefix == self._collection.prefix and not start and stop is None:
            entries = self.entries
            return [entries[key] for key in self._keys]
        first, last = self.bounds(prefix, start)
        if stop is not None:
            last = min(last, first + stop)
        entries = self.entries
        return [entries[key] for key in self._keys[first:last]]

    def narrow(self, prefix: str, equals: Sequence[tuple[str, str]]) -> list[StoredEntry] | None:
        """The entries that meet some exact requirement that an index answers, in key order; None when none does."""
        if (key := exact_key(self._collection, prefix, equals)) is not None:
            return [self.entries[key]] if key in self.entries else []
        for field, value in equals:
            if field in self._by_field:
                keys = self._by_field[field].get(value, ())
                return [self.entries[key] for key in sorted(keys) if key.startswith(prefix)]
        narrower = namespace_prefix(self._collection, prefix, equals)
        return self.scan(narrower) if narrower != prefix else None


def _drop(by_value: dict[str, set[str]], value: str, key: str) -> None:
    keys = by_value[value]
    keys.discard(key)
    if not keys:
        del by_value[value]


def namespace_prefix(collection: Collection, prefix: str, equals: Sequence[tuple[str, str]]) -> str:
    """The narrowest prefix that follows from a prefix and a requirement on ``metadata.namespace``."""
    if collection.namespaced and prefix == collection.prefix:
        for field, value in equals:
            if field == "metadata.namespace" and value:
                return f"{prefix}{value}/"
    return prefix


def exact_key(collection: Collection, prefix: str, equals: Sequence[tuple[str, str]]) -> str | None:
    """The one key that can match, when the requirements name it."""
    for field, value in equals:
        if field == "metadata.name":
            prefix = namespace_prefix(collection, prefix, equals)
            return f"{prefix}{value}" if not collection.namespaced or prefix != collection.prefix else None
    return None

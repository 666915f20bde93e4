"""Entries that are not (yet) in the store: answers to dry runs, converted versions, the last state of what was removed."""

from collections.abc import Callable, Sequence
from typing import Any, overload

import orjson

from controlplane.apiserver.storage.interface import Entry

Object = dict[str, Any]


class PlainEntry:
    """An Entry around a dict; encodes when asked."""

    __slots__ = ("_body", "_obj", "key", "revision")

    def __init__(self, key: str, revision: int, obj: Object) -> None:
        self.key, self.revision = key, revision
        self._obj = obj
        self._body: bytes | None = None

    @property
    def body(self) -> bytes:
        if self._body is None:
            self._body = orjson.dumps(ordered(self._obj))
        return self._body

    @property
    def item(self) -> bytes:
        return orjson.dumps({key: value for key, value in ordered(self._obj).items() if key not in ("apiVersion", "kind")})

    def decode(self) -> Object:
        obj: Object = orjson.loads(self.body)
        return obj


class LazyEntries(Sequence[Entry]):
    """Each entry is made of another when it is looked at: a long list is never held in a second form."""

    def __init__(self, entries: Sequence[Entry], make: Callable[[Entry], Entry]) -> None:
        self._entries, self._make = entries, make

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, at: int) -> Entry: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Entry]: ...

    def __getitem__(self, at: int | slice) -> Entry | Sequence[Entry]:
        if isinstance(at, slice):
            return [self._make(entry) for entry in self._entries[at]]
        return self._make(self._entries[at])


def ordered(obj: Object) -> Object:
    """apiVersion, kind and metadata first, as every encoder of ours writes."""
    head: Object = {key: obj[key] for key in ("apiVersion", "kind", "metadata") if key in obj}
    return {**head, **obj}


def plain(entry: Entry, obj: Object) -> PlainEntry:
    """``obj`` in place of what ``entry`` holds, under the same key and revision."""
    return PlainEntry(entry.key, entry.revision, obj)

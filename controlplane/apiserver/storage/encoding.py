"""Objects as stored bytes, and stored bytes as the entries that every reader shares.

``encode`` makes what backends hold: ``apiVersion``, ``kind``, ``metadata`` first and no resourceVersion, which nobody
knows before the commit. ``StoredEntry`` puts the revision in once, right after ``"metadata":{``. Used by ``objects`` and
the cacher.
"""

from typing import Any

import orjson

from controlplane.apiserver.storage.interface import Collection, Traits

_METADATA = b'"metadata":{'
_START = b'{"metadata":{"resourceVersion":"'
_BRACE = ord("}")
NO_TRAITS = Traits()
_LEADING = frozenset({"apiVersion", "kind", "metadata"})


def encode(obj: dict[str, Any]) -> bytes:
    """The bytes to store for an object."""
    metadata = obj["metadata"]
    if "resourceVersion" in metadata:
        metadata = {key: value for key, value in metadata.items() if key != "resourceVersion"}
    ordered = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}
    ordered.update((key, value) for key, value in obj.items() if key not in _LEADING)
    return orjson.dumps(ordered)


def head_of(api_version: str, kind: str) -> bytes:
    """How stored values of a kind begin, up to ``"metadata"``."""
    return b'{"apiVersion":%b,"kind":%b,' % (orjson.dumps(api_version), orjson.dumps(kind))


class StoredEntry:
    """See ``Entry``. What is kept is ``item``, so that lists are joined without a copy; ``body`` is put together when asked for.

    ``head`` is shared by the entries of a collection. Raises ValueError for bytes that ``encode`` never made.
    """

    __slots__ = ("head", "item", "key", "revision", "traits")
    restored = False

    def __init__(self, key: str, value: bytes, revision: int, traits: Traits = NO_TRAITS, head: bytes = b"") -> None:
        shared = bool(head) and value.startswith(head)
        at = len(head) if shared else value.find(_METADATA)
        inside = at + len(_METADATA)
        if at < 0 or value[at:inside] != _METADATA:
            raise ValueError("a stored value has no metadata")
        self.key, self.revision, self.traits = key, revision, traits
        self.head = head if shared else value[:at]
        closing = b'"' if value[inside] == _BRACE else b'",'
        self.item = b"".join((_START, b"%d" % revision, closing, memoryview(value)[inside:]))

    @property
    def body(self) -> bytes:
        return self.head + self.item[1:]

    @property
    def value(self) -> bytes:
        """The stored bytes, without resourceVersion."""
        return self.head + _METADATA + self.item[self._rest() :]

    def holds(self, value: bytes) -> bool:
        """Whether these stored bytes are the ones of this entry."""
        return self.value == value

    def decode(self) -> dict[str, Any]:
        decoded: dict[str, Any] = orjson.loads(self.body)
        return decoded

    def at(self, revision: int) -> "StoredEntry":
        """The same object with another resourceVersion, as a deletion carries it."""
        return StoredEntry(self.key, self.value, revision, self.traits, self.head)

    def _rest(self) -> int:
        """Where the metadata goes on after the resourceVersion."""
        after = len(_START) + len(str(self.revision)) + 1
        return after if self.item[after] == _BRACE else after + 1

    def __repr__(self) -> str:
        return f"StoredEntry({self.key!r}, revision={self.revision})"


class RestoredEntry(StoredEntry):
    """An object that is not stored the way it is shown: writing it again is a change, whatever it holds."""

    __slots__ = ()
    restored = True

    def at(self, revision: int) -> "RestoredEntry":
        return RestoredEntry(self.key, self.value, revision, self.traits, self.head)


def entry_of(collection: Collection, key: str, value: bytes, revision: int, head: bytes = b"") -> StoredEntry:
    """The entry of a stored value, restored where the collection asks for that; without traits. Raises ValueError."""
    if collection.restore is not None:
        obj = orjson.loads(value)
        if collection.restore(obj):
            return RestoredEntry(key, encode(obj), revision, head=head)
    return StoredEntry(key, value, revision, head=head)


class PlainEntry:
    """Ready bytes that belong to no key: bookmarks and errors in a watch."""

    __slots__ = ("body", "key", "revision")

    def __init__(self, body: bytes, revision: int) -> None:
        self.key, self.body, self.revision = "", body, revision

    @property
    def item(self) -> bytes:
        return self.body

    def decode(self) -> dict[str, Any]:
        decoded: dict[str, Any] = orjson.loads(self.body)
        return decoded

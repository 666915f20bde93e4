"""Objects as stored bytes, and stored bytes as the entries that every reader shares.

``encode`` makes what backends hold: ``apiVersion``, ``kind``, ``metadata`` first and no resourceVersion, which nobody
knows before the commit. ``StoredEntry`` puts the revision in once, right after ``"metadata":{``. Used by ``objects`` and
the cacher.
"""

from typing import Any

import orjson

from controlplane.apiserver.storage.interface import Traits

_METADATA = b'"metadata":{'
_VERSION = b'"resourceVersion":"'
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


def with_revision(value: bytes, revision: int) -> tuple[bytes, int]:
    """``value`` with its resourceVersion, and where ``"metadata"`` begins. Raises ValueError for bytes ``encode`` never made."""
    at = value.find(_METADATA)
    if at < 0:
        raise ValueError("a stored value has no metadata")
    inside = at + len(_METADATA)
    closing = b'"' if value[inside : inside + 1] == b"}" else b'",'
    return b"%b%b%d%b%b" % (value[:inside], _VERSION, revision, closing, value[inside:]), at


class StoredEntry:
    """See ``Entry``. One bytes object; everything else is cut from it when asked for."""

    __slots__ = ("_at", "body", "key", "revision", "traits")

    def __init__(self, key: str, value: bytes, revision: int, traits: Traits = NO_TRAITS) -> None:
        self.key = key
        self.revision = revision
        self.body, self._at = with_revision(value, revision)
        self.traits = traits

    @property
    def item(self) -> bytes:
        return b"{" + self.body[self._at :]

    @property
    def value(self) -> bytes:
        """The stored bytes, without resourceVersion."""
        inside = self._at + len(_METADATA)
        after = inside + len(_VERSION) + len(str(self.revision)) + 1
        if self.body[after : after + 1] == b",":
            after += 1
        return self.body[:inside] + self.body[after:]

    def holds(self, value: bytes) -> bool:
        """Whether these stored bytes are the ones of this entry."""
        inside = self._at + len(_METADATA)
        return self.body[:inside] == value[:inside] and self.value == value

    def decode(self) -> dict[str, Any]:
        decoded: dict[str, Any] = orjson.loads(self.body)
        return decoded

    def at(self, revision: int) -> "StoredEntry":
        """The same object with another resourceVersion, as a deletion carries it."""
        return StoredEntry(self.key, self.value, revision, self.traits)

    def __repr__(self) -> str:
        return f"StoredEntry({self.key!r}, revision={self.revision})"


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

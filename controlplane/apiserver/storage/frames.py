"""Watch frames: the lines that watchers are sent, each encoded once and shared by all who get it.

Made by the cacher's events and by ``objects``; written to connections by ``endpoints``.
"""

from collections.abc import Callable

import orjson

from apimachinery.errors import StatusError
from controlplane.apiserver.storage.encoding import PlainEntry, StoredEntry
from controlplane.apiserver.storage.interface import Entry

ADDED, MODIFIED, DELETED, BOOKMARK, ERROR = "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"
INITIAL_EVENTS_END = "k8s.io/initial-events-end"

_HEADS = {kind: b'{"type":"%b","object":' % kind.encode() for kind in (ADDED, MODIFIED, DELETED, BOOKMARK, ERROR)}


class Frame:
    """See ``WatchFrame``. Each encoding is made when first asked for."""

    __slots__ = ("_chunk", "_forms", "entry", "revision", "type")

    def __init__(self, kind: str, entry: Entry, revision: int) -> None:
        self.type, self.entry, self.revision = kind, entry, revision
        self._chunk: bytes | None = None
        self._forms: dict[str, bytes] | None = None

    @property
    def line(self) -> bytes:
        return self.form("line", _line)

    @property
    def chunk(self) -> bytes:
        chunk = self._chunk
        if chunk is None:
            chunk = self._chunk = chunked(_line(self))
        return chunk

    def form(self, name: str, make: Callable[["Frame"], bytes]) -> bytes:
        if self._forms is None:
            self._forms = {}
        if name not in self._forms:
            self._forms[name] = make(self)
        return self._forms[name]


def _line(frame: Frame) -> bytes:
    return b"%b%b}\n" % (_HEADS[frame.type], frame.entry.body)


def chunked(data: bytes) -> bytes:
    """A chunk of HTTP/1.1."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def added(entry: StoredEntry) -> Frame:
    return Frame(ADDED, entry, entry.revision)


def bookmark(api_version: str, kind: str, revision: int, *, initial_events_end: bool = False) -> Frame:
    """Tells a watcher that it has seen everything up to ``revision``."""
    metadata: dict[str, object] = {"resourceVersion": str(revision)}
    if initial_events_end:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    body = orjson.dumps({"apiVersion": api_version, "kind": kind, "metadata": metadata})
    return Frame(BOOKMARK, PlainEntry(body, revision), revision)


def error(failure: StatusError) -> Frame:
    return Frame(ERROR, PlainEntry(orjson.dumps(failure.status), 0), 0)

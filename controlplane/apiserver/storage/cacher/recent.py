"""Lists answered lately, with what was made of them: until the collection changes, an equal question gets an equal answer.

Owned by ``cacher``; ``endpoints`` keeps encodings in the ``Memo`` of a ``ListResult``. Many clients ask the same at once
when a server comes back, and dashboards ask the same for ever. What is held is bounded in number, bytes and time.
"""

from collections.abc import Callable
from typing import Any, Protocol

from controlplane.apiserver.storage.interface import ListResult

KEEP = 32  # lists of one collection
KEEP_BYTES = 16 << 20  # of encodings of one collection
KEEP_SECONDS = 10.0

Key = tuple[str, str, str, int]  # prefix, selector, start, limit


class Timer(Protocol):
    def cancel(self) -> None: ...


class RecentLists:
    """The lists of one collection. ``call_later`` is the loop's."""

    def __init__(self, call_later: Callable[[float, Callable[[], None]], Timer]) -> None:
        self._lists: dict[Key, ListResult] = {}
        self._call_later = call_later
        self._timer: Timer | None = None
        self.bytes = 0

    def __bool__(self) -> bool:
        return bool(self._lists)

    def get(self, key: Key) -> ListResult | None:
        return self._lists.get(key)

    def put(self, key: Key, found: ListResult) -> ListResult:
        """Remember an answer; what is given back has room for its encodings."""
        if len(self._lists) >= KEEP:
            self.clear()
        kept = ListResult(found.entries, found.revision, found.continue_token, found.remaining, Memo(self))
        self._lists[key] = kept
        if self._timer is None:
            self._timer = self._call_later(KEEP_SECONDS, self.clear)
        return kept

    def clear(self) -> None:
        """The collection changes, or time is up."""
        self._lists = {}
        self.bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Memo:
    """Encodings of one list, by name. See ``interface.Memo``."""

    __slots__ = ("_held", "_lists")

    def __init__(self, lists: RecentLists) -> None:
        self._lists = lists
        self._held: dict[str, Any] = {}

    def get(self, name: str) -> Any:
        return self._held.get(name)

    def keep(self, name: str, value: Any, size: int) -> None:
        if name not in self._held and self._lists.bytes + size <= KEEP_BYTES:
            self._lists.bytes += size
            self._held[name] = value

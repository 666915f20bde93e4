"""Lists that are being read page by page: the whole list as it was when the first page was given.

Owned by ``cacher``. A few are kept for a while; a page whose list is no longer here is read from the backend.
"""

from collections import OrderedDict
from collections.abc import Sequence

from controlplane.apiserver.storage.encoding import StoredEntry

KEEP = 8
KEEP_SECONDS = 120.0


class Snapshots:
    def __init__(self) -> None:
        self._held: OrderedDict[tuple[str, int], tuple[float, Sequence[StoredEntry]]] = OrderedDict()

    def get(self, prefix: str, revision: int, now: float) -> Sequence[StoredEntry] | None:
        self._expire(now)
        held = self._held.get((prefix, revision))
        return held[1] if held else None

    def keep(self, prefix: str, revision: int, entries: Sequence[StoredEntry], now: float) -> None:
        if (prefix, revision) not in self._held:
            self._held[prefix, revision] = (now, entries)
        self._expire(now)
        while len(self._held) > KEEP:
            self._held.popitem(last=False)

    def clear(self) -> None:
        self._held.clear()

    def _expire(self, now: float) -> None:
        while self._held and next(iter(self._held.values()))[0] < now - KEEP_SECONDS:
            self._held.popitem(last=False)

"""Lists that are being read page by page: a collection as it was before a change overtook them.

Owned by ``cacher``. A copy is made only when a change comes while somebody is paging, and it serves every prefix. A few
are kept for a while; a page whose state is no longer here is read from the backend.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from controlplane.apiserver.storage.encoding import StoredEntry

KEEP = 8
KEEP_SECONDS = 120.0


class _Snapshot(NamedTuple):
    low: int  # holds for revisions from low up to, not including, high
    high: int
    time: float
    entries: Sequence[StoredEntry]


class Snapshots:
    """Past states of one collection."""

    def __init__(self) -> None:
        self._held: deque[_Snapshot] = deque(maxlen=KEEP)
        self._wanted = False

    def want(self) -> None:
        """Somebody has been told to come back for the rest of the present state."""
        self._wanted = True

    def before_change(self, low: int, high: int, now: float, state: Callable[[], Sequence[StoredEntry]]) -> None:
        """The state that holds since revision ``low`` is about to change at ``high``."""
        if self._held and self._held[0].time < now - KEEP_SECONDS:
            self._held.popleft()
        if self._wanted:
            self._wanted = False
            self._held.append(_Snapshot(low, high, now, state()))

    def get(self, revision: int) -> Sequence[StoredEntry] | None:
        """All entries in key order as of ``revision``."""
        for snapshot in self._held:
            if snapshot.low <= revision < snapshot.high:
                return snapshot.entries
        return None

    def clear(self) -> None:
        self._held.clear()

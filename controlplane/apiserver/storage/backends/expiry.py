"""When keys expire. Used by ``sqlite``; holds what is due when, decides nothing.

An entry is true as long as its key still has the revision it was noted with: writing a key again makes its old entry void.
"""

import heapq
from collections.abc import Iterator


class Expirations:
    """A heap of (time, key, revision)."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, str, int]] = []

    def note(self, when: float, key: str, revision: int) -> None:
        heapq.heappush(self._heap, (when, key, revision))

    def next(self) -> float | None:
        """When the earliest entry is due."""
        return self._heap[0][0] if self._heap else None

    def due(self, now: float) -> Iterator[tuple[str, int]]:
        """Take out key and revision of each entry that is due, one at a time."""
        while self._heap and self._heap[0][0] <= now:
            _, key, revision = heapq.heappop(self._heap)
            yield key, revision

    def void_from(self, revision: int) -> None:
        """Drop entries of this revision and later ones: they were not written."""
        self._heap = [entry for entry in self._heap if entry[2] < revision]
        heapq.heapify(self._heap)

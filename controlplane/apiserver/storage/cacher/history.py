"""The recent changes of one collection, so that a watch can begin in the past. Bounded by age and number.

Filled by ``cacher``; read when a watch starts. Numbers are upstream's: a client has at least 75 seconds to come back.
"""

from bisect import bisect_right
from collections.abc import Sequence

from controlplane.apiserver.storage.cacher.event import Event

KEEP_SECONDS = 75.0
KEEP_AT_LEAST = 100  # changes, however old
KEEP_AT_MOST = 102_400  # changes, however young
KEEP_BYTES = 32 << 20  # of objects that only history holds, however young
LINES_KEPT = 2  # the newest changes keep their encoded lines; watchers hold those that they still need


class History:
    """Changes after ``oldest`` are all here."""

    def __init__(self, oldest: int) -> None:
        self.oldest = oldest
        self._events: list[Event] = []
        self._bytes = 0
        self._first = 0  # those before it are forgotten, and cut off now and then

    def __len__(self) -> int:
        return len(self._events) - self._first

    def append(self, event: Event) -> None:
        events = self._events
        events.append(event)
        if len(events) > LINES_KEPT:
            events[-LINES_KEPT - 1].forget_frames()
        self._bytes += event.size
        while self._is_over(event.time):
            oldest = events[self._first]
            self.oldest = oldest.revision
            self._bytes -= oldest.size
            self._first += 1
        if self._first > KEEP_AT_LEAST and self._first * 2 > len(events):
            del events[: self._first]
            self._first = 0

    def since(self, revision: int) -> Sequence[Event]:
        """Changes after ``revision``, which must not be before ``oldest``."""
        return self._events[bisect_right(self._events, revision, self._first, key=lambda event: event.revision) :]

    def _is_over(self, now: float) -> bool:
        held = len(self)
        if held <= KEEP_AT_LEAST:
            return False
        return held > KEEP_AT_MOST or self._bytes > KEEP_BYTES or self._events[self._first].time < now - KEEP_SECONDS

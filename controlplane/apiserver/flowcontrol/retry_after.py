"""How long refused clients are asked to wait: longer while many are refused, shorter again once it ends. Pure.

Follows upstream's ``dropped_requests_tracker.go``: doubled, at most every so many seconds, down one by one.
"""

from collections import deque

MAX_SECONDS = 32
_MANY = 3  # refusals for each second of waiting


class RetryAfter:
    """Of one priority level. Seconds are whole ones of the wall clock."""

    def __init__(self) -> None:
        self.seconds = 1
        self._history: deque[tuple[int, int]] = deque()  # second, refusals in it
        self._second, self._count = 0, 0
        self._raised_at = 0

    def note(self, now: int) -> None:
        """Somebody was refused in this second."""
        if now == self._second:
            self._count += 1
            return
        self._history.append((self._second, self._count))
        while self._second - self._history[0][0] > MAX_SECONDS:
            self._history.popleft()
        self._second, self._count = now, 1
        self._adjust(now)

    def _adjust(self, now: int) -> None:
        refused = sum(count for second, count in self._history if now - self.seconds <= second < now)
        if now - self._raised_at >= self.seconds and refused >= _MANY * self.seconds:
            self.seconds = min(self.seconds * 2, MAX_SECONDS)
            self._raised_at = now
        elif refused < self.seconds and self.seconds > 1:
            self.seconds -= 1

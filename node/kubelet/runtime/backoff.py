"""Exponential back-off per key, counted from when the last attempt failed: restarts of containers and pulls of images."""

from dataclasses import dataclass, field

from component.clock import Clock


@dataclass(slots=True)
class _Entry:
    delay: float
    updated: float


@dataclass(slots=True)
class Backoff:
    """10 s, doubled to 5 min, forgotten after twice the maximum: upstream's numbers.

    :func:`remaining` asks, :func:`next` records an attempt. Entries of gone pods are dropped by :func:`collect`.
    """

    clock: Clock
    initial: float = 10.0
    maximum: float = 300.0
    _entries: dict[str, _Entry] = field(default_factory=dict)

    def remaining(self, key: str, since: float) -> float:
        """Seconds to wait still when the last attempt ended at ``since`` (the clock's monotonic time); 0: go ahead."""
        entry = self._entries.get(key)
        now = self.clock.monotonic()
        if entry is None or self._forgotten(entry, now):
            return 0.0
        return max(0.0, entry.delay - (now - since))

    def delay(self, key: str) -> float:
        """The full length of the present wait."""
        entry = self._entries.get(key)
        return entry.delay if entry else 0.0

    def next(self, key: str) -> None:
        """An attempt is being made: the wait after it, if it fails, is twice the last."""
        now = self.clock.monotonic()
        entry = self._entries.get(key)
        if entry is None or self._forgotten(entry, now):
            self._entries[key] = _Entry(self.initial, now)
        else:
            self._entries[key] = _Entry(min(entry.delay * 2, self.maximum), now)

    def reset(self, key: str) -> None:
        self._entries.pop(key, None)

    def collect(self) -> None:
        """Forget what has not been touched for twice the maximum."""
        now = self.clock.monotonic()
        self._entries = {key: entry for key, entry in self._entries.items() if not self._forgotten(entry, now)}

    def _forgotten(self, entry: _Entry, now: float) -> bool:
        return now - entry.updated > 2 * self.maximum

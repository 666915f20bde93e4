"""How long to leave something alone that has just failed: 1 s, then twice as long each time, up to 15 minutes."""

from component.clock import Clock

_FIRST, _LONGEST = 1.0, 900.0


class Retries:
    """Keyed by whatever failed; a key that has been quiet for twice the longest pause starts over."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: dict[str, tuple[int, float]] = {}

    def pause(self, key: str) -> float:
        """Seconds still to wait; 0 when it may be tried now."""
        held = self._failures.get(key)
        if held is None:
            return 0.0
        count, since = held
        quiet = self._clock.monotonic() - since
        if quiet > 2 * _LONGEST:
            del self._failures[key]
        return max(0.0, min(_LONGEST, _FIRST * 2.0 ** (count - 1)) - quiet)

    def failed(self, key: str) -> None:
        count = self._failures.get(key, (0, 0.0))[0]
        self._failures[key] = (min(count + 1, 16), self._clock.monotonic())

"""At which pace requests are turned away: at once as long as they are few, and then one after the other. Pure; used by ``chain``.

Somebody who asks again the moment he is refused would otherwise keep the server busy with nothing but refusing him.
"""

RATE = 300.0  # refusals a second
AT_ONCE = 300  # that nobody has to wait for
LONGEST = 5.0  # seconds that an answer is held back at most


class Pace:
    """Of one server. Times are those of a monotonic clock."""

    def __init__(self, rate: float = RATE, at_once: int = AT_ONCE) -> None:
        self._step, self._grace = 1 / rate, at_once / rate
        self._due = 0.0  # when the last refusal so far would be sent, were none of them free

    def delay(self, now: float) -> float:
        """Seconds to wait before the next refusal."""
        self._due = max(self._due, now) + self._step
        wait = self._due - now - self._grace
        if wait > LONGEST:
            self._due = now + self._grace + LONGEST
            return LONGEST
        return max(wait, 0.0)

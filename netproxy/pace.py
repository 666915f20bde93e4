"""How often rules may be synced: at once after a quiet time, then spaced. Pure; ``proxier`` waits as told."""

_BURST = 2
_ADAPTIVE_BURST = 5


class Pace:
    """A bucket of a few syncs that refills by one each ``period`` seconds.

    With ``adaptive`` the period shrinks to five times what a sync costs, and at least 50 ms, so that in a storm of changes
    syncing takes a fifth of the time: on a small cluster they are then programmed sooner than the fixed period allows.
    """

    def __init__(self, period: float, *, adaptive: bool = False) -> None:
        self._limit = period
        self._period = min(period, 0.1) if adaptive else period
        self._adaptive = adaptive
        self._burst = _ADAPTIVE_BURST if adaptive else _BURST
        self._tokens = float(self._burst)
        self._at = 0.0

    def delay(self, now: float) -> float:
        """Seconds until the next sync may start."""
        self._refill(now)
        return 0.0 if self._tokens >= 1 else (1 - self._tokens) * self._period

    def synced(self, now: float, seconds: float) -> None:
        """A sync that took ``seconds`` has ended."""
        self._refill(now)
        self._tokens = max(self._tokens - 1, 0.0)
        if self._adaptive:
            self._period = min(max(5 * seconds, 0.05), self._limit)

    def _refill(self, now: float) -> None:
        gained = (now - self._at) / self._period if self._period > 0 else self._burst
        self._tokens = min(self._tokens + gained, float(self._burst))
        self._at = now

"""How fast: a token bucket for requests, and the limiters that decide when a failed key is tried again.

``client.workqueue`` asks ``when``; ``client.rest`` may wait on a bucket. The defaults are client-go's.
"""

from collections.abc import Hashable, Sequence
from typing import Protocol

from component.clock import Clock


class RateLimiter(Protocol):
    """Decides how long a key waits before its next try."""

    def when(self, key: Hashable) -> float:
        """Seconds from now; each call counts as one more failure of ``key``."""
        ...

    def forget(self, key: Hashable) -> None:
        """``key`` succeeded, or nobody cares any more."""
        ...

    def retries(self, key: Hashable) -> int:
        """Failures counted since the last ``forget``."""
        ...


class ExponentialLimiter:
    """``base`` seconds after the first failure of a key, doubled with each further one, up to ``cap``."""

    def __init__(self, base: float = 0.005, cap: float = 1000.0) -> None:
        self._base, self._cap = base, cap
        self._failures: dict[Hashable, int] = {}

    def when(self, key: Hashable) -> float:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        # past 2**64 the product means nothing, and a float would overflow at 2**1024
        return min(self._base * 2.0 ** min(failures, 64), self._cap)

    def forget(self, key: Hashable) -> None:
        self._failures.pop(key, None)

    def retries(self, key: Hashable) -> int:
        return self._failures.get(key, 0)


class TokenBucket:
    """``burst`` tokens, refilled at ``rate`` a second. Reserving never fails; it tells how long to wait."""

    def __init__(self, rate: float, burst: int, clock: Clock) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._tokens = float(burst)
        self._last = clock.monotonic()

    def reserve(self) -> float:
        """Take one token, on credit if need be; the result is when it becomes due, in seconds from now."""
        self._refill()
        self._tokens -= 1
        return 0.0 if self._tokens >= 0 else -self._tokens / self._rate

    def try_take(self) -> bool:
        """Take one token if there is one."""
        self._refill()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    async def wait(self) -> None:
        delay = self.reserve()
        if delay > 0:
            await self._clock.sleep(delay)

    def _refill(self) -> None:
        now = self._clock.monotonic()
        self._tokens = min(self._tokens + (now - self._last) * self._rate, float(self._burst))
        self._last = now


class BucketLimiter:
    """All keys share one token bucket."""

    def __init__(self, bucket: TokenBucket) -> None:
        self._bucket = bucket

    def when(self, key: Hashable) -> float:
        return self._bucket.reserve()

    def forget(self, key: Hashable) -> None:
        return

    def retries(self, key: Hashable) -> int:
        return 0


class MaxOf:
    """The longest wait among several limiters, each of which counts."""

    def __init__(self, limiters: Sequence[RateLimiter]) -> None:
        self._limiters = limiters

    def when(self, key: Hashable) -> float:
        return max(limiter.when(key) for limiter in self._limiters)

    def forget(self, key: Hashable) -> None:
        for limiter in self._limiters:
            limiter.forget(key)

    def retries(self, key: Hashable) -> int:
        return max(limiter.retries(key) for limiter in self._limiters)


def default_limiter(clock: Clock) -> RateLimiter:
    """Per key 5 ms doubling to 1000 s, and over all keys 10 a second with a burst of 100."""
    return MaxOf([ExponentialLimiter(0.005, 1000.0), BucketLimiter(TokenBucket(10, 100, clock))])

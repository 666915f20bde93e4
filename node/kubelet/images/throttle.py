"""Bounds how many pulls begin (``registryPullQPS``, ``registryBurst``): a bucket of tokens. ``pull`` takes one for each."""

from dataclasses import dataclass, field

from component.clock import Clock


class ThrottledError(Exception):
    """No pull may begin now. The text is upstream's."""

    def __init__(self) -> None:
        super().__init__("pull QPS exceeded")


@dataclass(slots=True)
class Throttle:
    """``rate`` tokens come in each second, ``burst`` at most are kept; at first it is full."""

    clock: Clock
    rate: float
    burst: int
    _tokens: float = field(init=False)
    _counted_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._tokens, self._counted_at = float(self.burst), self.clock.monotonic()

    def take(self) -> bool:
        """Whether there was a token."""
        now = self.clock.monotonic()
        self._tokens = min(float(self.burst), self._tokens + (now - self._counted_at) * self.rate)
        self._counted_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

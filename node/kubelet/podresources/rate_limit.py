"""How often the pod resources API may be called: a bucket of tokens. Pure but for its clock.

The figures are upstream's (``apis/podresources/grpc/ratelimit.go``): a hundred calls a second, ten at once.
"""

from dataclasses import dataclass, field

from component.clock import Clock

QPS, BURST = 100.0, 10


@dataclass(slots=True)
class RateLimit:
    """``allow`` takes a token, if there is one."""

    clock: Clock
    qps: float = QPS
    burst: int = BURST
    _tokens: float = field(init=False)
    _at: float = field(init=False)

    def __post_init__(self) -> None:
        self._tokens, self._at = float(self.burst), self.clock.monotonic()

    def allow(self) -> bool:
        now = self.clock.monotonic()
        self._tokens = min(float(self.burst), self._tokens + (now - self._at) * self.qps)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

"""How many seats a level could have used: average, spread and peak of a period. Fed by ``control``, read by ``borrowing``."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

SMOOTHING = 0.977  # upstream's seatDemandSmoothingCoefficient: half of a peak is forgotten in five minutes


@dataclass(frozen=True, slots=True)
class Observed:
    """One period, in seats."""

    average: float
    deviation: float
    peak: int
    seconds: float


def observe(times: Mapping[int, float], peak: int) -> Observed:
    """``times`` is for how many seconds each demand held."""
    seconds = sum(times.values())
    if seconds <= 0:
        return Observed(0.0, 0.0, peak, 0.0)
    average = sum(demand * held for demand, held in times.items()) / seconds
    square = sum(demand * demand * held for demand, held in times.items()) / seconds
    return Observed(average, sqrt(max(square - average * average, 0.0)), peak, seconds)


@dataclass(slots=True)
class SeatDemand:
    """What the periods so far come to; ``smoothed`` rises at once and falls slowly."""

    average: float = 0.0
    deviation: float = 0.0
    peak: int = 0
    smoothed: float = 0.0

    def update(self, seen: Observed) -> None:
        self.peak = seen.peak
        if seen.seconds <= 0:
            return
        self.average, self.deviation = seen.average, seen.deviation
        envelope = seen.average + seen.deviation
        self.smoothed = max(envelope, SMOOTHING * self.smoothed + (1 - SMOOTHING) * envelope)

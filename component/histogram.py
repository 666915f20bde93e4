"""A histogram as plain numbers, for what is measured with every request: Prometheus sees it only when somebody scrapes."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from prometheus_client.core import HistogramMetricFamily

SECONDS = tuple(0.001 * 2**power for power in range(15))
"""From 1 ms to 16 s, upstream's usual ones."""


class Times:
    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self.bounds, self.counts, self.total = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds

    def merge(self, other: "Times") -> None:
        """Add what another with the same bounds has measured."""
        self.counts = [own + more for own, more in zip(self.counts, other.counts, strict=True)]
        self.total += other.total

    @property
    def count(self) -> int:
        return sum(self.counts)

    def show(self, family: HistogramMetricFamily, labels: Sequence[str]) -> None:
        """Add this to a family, cumulated as Prometheus has it."""
        names = [*(str(float(bound)) for bound in self.bounds), "+Inf"]
        rows = [(name, float(count)) for name, count in zip(names, accumulate(self.counts), strict=True)]
        family.add_metric(labels, rows, self.total)

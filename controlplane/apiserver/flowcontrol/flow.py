"""A flow of requests, as the filter meets it: where it queues, and the numbers that are kept of it. Made by ``control``."""

from bisect import bisect_left
from dataclasses import dataclass, field

from controlplane.apiserver.flowcontrol.borrowing import first_seats
from controlplane.apiserver.flowcontrol.configuration import LevelSpec, Limits, SchemaSpec
from controlplane.apiserver.flowcontrol.demand import SeatDemand
from controlplane.apiserver.flowcontrol.queueset import QueueSet
from controlplane.apiserver.flowcontrol.retry_after import RetryAfter
from controlplane.apiserver.flowcontrol.width import MAX_LIST_SEATS, most_seats

SECONDS_BUCKETS = (0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0)
WATCH_BUCKETS = (0, 1, 10, 100, 1000, 10000)
SEAT_BUCKETS = (1, 2, 4, 10)
LENGTH_BUCKETS = (0, 10, 25, 50, 100, 250, 500, 1000)


class Samples:
    """A histogram as plain integers."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds, self.counts, self.total = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value


def _seconds() -> Samples:
    return Samples(SECONDS_BUCKETS)


@dataclass(slots=True)
class FlowStats:
    """Of one schema in one level."""

    rejected: dict[str, int] = field(default_factory=dict)
    dispatched: int = 0
    waiting: int = 0
    waiting_seats: int = 0
    executing: int = 0
    seats: int = 0
    waited: Samples = field(default_factory=_seconds)
    waited_in_vain: Samples = field(default_factory=_seconds)
    executed: dict[str, Samples] = field(default_factory=lambda: {"regular": _seconds(), "watch": _seconds()})
    lengths: Samples = field(default_factory=lambda: Samples(LENGTH_BUCKETS))
    watches: Samples = field(default_factory=lambda: Samples(WATCH_BUCKETS))
    widths: Samples = field(default_factory=lambda: Samples(SEAT_BUCKETS))


class Level:
    """One priority level while it lives."""

    __slots__ = ("current", "demand", "limits", "most_seats", "queues", "quiescing", "retry_after", "spec", "target")

    def __init__(self, spec: LevelSpec, limits: Limits, now: float) -> None:
        self.current = first_seats(limits)
        self.queues = QueueSet(spec.shape, self.current, now)
        self.demand = SeatDemand()
        self.retry_after = RetryAfter()
        self.quiescing = False  # its object is gone; it goes too, once nobody is left in it
        self.target = 0.0
        self.most_seats = 0
        self.adopt(spec, limits)

    def adopt(self, spec: LevelSpec, limits: Limits) -> None:
        """What the objects say now; the queues follow in the next adjustment."""
        self.spec, self.limits, self.quiescing = spec, limits, False
        self.most_seats = most_seats(limits.nominal, spec.shape.hand) if spec.shape.queues > 0 else MAX_LIST_SEATS


@dataclass(frozen=True, slots=True)
class Flow:
    """What is known about a request once it is classified. ``headers`` are lines for its answer."""

    schema: SchemaSpec
    level: Level
    distinguisher: str
    hand: tuple[int, ...]
    headers: bytes
    stats: FlowStats

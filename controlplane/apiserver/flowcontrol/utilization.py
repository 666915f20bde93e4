"""How full a level was, and for how long: histograms over time, and the seat demand of one adjustment period.

The queues only note for how many seconds each of their states held; here this is turned into what metrics and ``borrowing``
want to know. Read when somebody scrapes, every ten seconds, and when many different states have come together.
"""

from bisect import bisect_left

from controlplane.apiserver.flowcontrol.flow import Level

SEAT_BOUNDS = (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1)
REQUEST_BOUNDS = (0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1)
DEMAND_BOUNDS = (0.2, 0.4, 0.6, 0.8, 1, 1.2, 1.4, 1.7, 2, 2.8, 4, 6)


class TimeHistogram:
    """Nanoseconds during which a ratio was in each bucket, as upstream counts."""

    __slots__ = ("bounds", "seconds", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds, self.seconds, self.total = bounds, [0.0] * (len(bounds) + 1), 0.0

    def add(self, ratio: float, seconds: float) -> None:
        self.seconds[bisect_left(self.bounds, ratio)] += seconds
        self.total += ratio * seconds


class Utilization:
    """Of one level. Ratios are of the limits that held at the time."""

    def __init__(self, level: Level, server_seats: int) -> None:
        self._level, self._server_seats = level, server_seats
        self.executing_seats = TimeHistogram(SEAT_BOUNDS)
        self.executing_requests = TimeHistogram(REQUEST_BOUNDS)
        self.waiting_requests = TimeHistogram(REQUEST_BOUNDS)
        self.demand = TimeHistogram(DEMAND_BOUNDS)
        self._period: dict[int, float] = {}

    def fold(self, now: float) -> None:
        """Take over what the queues have noted."""
        level = self._level
        seats = level.current or max(1, round(self._server_seats / 10))
        shape = level.spec.shape
        room = max(shape.length, 1) * max(shape.queues, 1)
        for (executing, used, waiting, wanted), held in level.queues.take_times(now).items():
            self.executing_seats.add(used / seats, held)
            self.executing_requests.add(executing / seats, held)
            self.waiting_requests.add(waiting / room, held)
            self.demand.add((used + wanted) / seats, held)
            self._period[used + wanted] = self._period.get(used + wanted, 0.0) + held

    def period(self) -> dict[int, float]:
        """Seconds by demand in seats, since the last call."""
        period, self._period = self._period, {}
        return period

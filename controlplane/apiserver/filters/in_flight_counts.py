"""How many requests run and wait, readers and writers apart, and how many were turned away. For both filters that bound them."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_KINDS = {True: "readOnly", False: "mutating"}


class InFlight(Collector):
    """Upstream's ``apiserver_current_inflight_requests`` and its companions. Shown is the most there were since the last look."""

    def __init__(self) -> None:
        self.reading = self.writing = 0
        self.most_reading = self.most_writing = 0
        self.waiting = {True: 0, False: 0}
        self.dropped = {True: 0, False: 0}

    def enter(self, reading: bool) -> None:
        if reading:
            self.reading += 1
            if self.reading > self.most_reading:
                self.most_reading = self.reading
        else:
            self.writing += 1
            if self.writing > self.most_writing:
                self.most_writing = self.writing

    def leave(self, reading: bool) -> None:
        if reading:
            self.reading -= 1
        else:
            self.writing -= 1

    def collect(self) -> Iterator[Metric]:
        most = {True: self.most_reading, False: self.most_writing}
        self.most_reading, self.most_writing = self.reading, self.writing
        text = "Most requests that were being worked on at once, per request kind."
        running = GaugeMetricFamily("apiserver_current_inflight_requests", text, labels=("request_kind",))
        text = "Requests that wait in queues, per request kind."
        queued = GaugeMetricFamily("apiserver_current_inqueue_requests", text, labels=("request_kind",))
        text = "Number of requests dropped with 'Try again later' response."
        dropped = CounterMetricFamily("apiserver_dropped_requests", text, labels=("request_kind",))
        for reading, kind in _KINDS.items():
            running.add_metric((kind,), most[reading])
            queued.add_metric((kind,), self.waiting[reading])
            dropped.add_metric((kind,), self.dropped[reading])
        yield from (running, queued, dropped)

"""Upstream's metrics of availability. A collector of its own: the library lets no gauge and counter share their name."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

_NAME = "aggregator_unavailable_apiservice"


class AvailabilityMetrics(Collector):
    """Which APIServices are unavailable now, and how often each became so, by the reason."""

    def __init__(self) -> None:
        self.unavailable: dict[str, bool] = {}
        self.became_unavailable: Counter[tuple[str, str]] = Counter()

    def collect(self) -> Iterator[Metric]:
        now = GaugeMetricFamily(_NAME, "Gauge of APIServices which are marked as unavailable.", labels=("name",))
        for name, is_unavailable in self.unavailable.items():
            now.add_metric((name,), float(is_unavailable))
        yield now
        text = "Counter of APIServices which are marked as unavailable broken down by reason."
        changes = CounterMetricFamily(_NAME, text, labels=("name", "reason"))
        for labels, count in self.became_unavailable.items():
            changes.add_metric(labels, float(count))
        yield changes

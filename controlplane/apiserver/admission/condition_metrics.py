"""What became of match conditions, of webhooks and of policies alike: upstream's names."""

import time
from collections import Counter
from collections.abc import Awaitable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from component.histogram import Times

if TYPE_CHECKING:
    from controlplane.apiserver.admission.policy.conditions import Match

_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25)
_LABELS = ("name", "kind", "type", "operation")
_PREFIX = "apiserver_admission_match_condition"
Where = tuple[str, str, str, str]
"""The name of a webhook or policy, which of the two it is, the step (admit or validate), and the operation."""


class ConditionMetrics(Collector):
    def __init__(self) -> None:
        self._times: dict[Where, Times] = {}
        self._exclusions: Counter[Where] = Counter()
        self._errors: Counter[Where] = Counter()

    async def watch(self, where: Where, matching: "Awaitable[Match]") -> "Match":
        begun = time.perf_counter()
        found = await matching
        times = self._times.get(where)
        if times is None:
            times = self._times[where] = Times(_BUCKETS)
        times.add(time.perf_counter() - begun)
        if found.failed:
            self._errors[where] += found.failed
        if not found.matches and not found.error:
            self._exclusions[where] += 1
        return found

    def collect(self) -> Iterator[Metric]:
        text = "Admission match condition evaluation time in seconds."
        family = HistogramMetricFamily(f"{_PREFIX}_evaluation_seconds", text, labels=_LABELS)
        for key, times in self._times.items():
            times.show(family, key)
        yield family
        yield _counter("exclusions", "Requests kept from a webhook or policy by conditions.", self._exclusions)
        yield _counter("evaluation_errors", "Match conditions without a value.", self._errors)


def _counter(name: str, text: str, counts: Counter[Where]) -> CounterMetricFamily:
    family = CounterMetricFamily(f"{_PREFIX}_{name}", text, labels=_LABELS)
    for key, count in counts.items():
        family.add_metric(key, count)
    return family

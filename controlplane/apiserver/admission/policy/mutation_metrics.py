"""How often mutations of policies were made or failed, and how long one took: upstream's names."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from component.histogram import Times
from controlplane.apiserver.admission.policy.metrics import BUCKETS, error_type

_LABELS = ("policy", "policy_binding", "error_type")
_PREFIX = "apiserver_mutating_admission_policy_check"


class MutationMetrics(Collector):
    def __init__(self) -> None:
        self._checks: dict[tuple[str, str, str], Times] = {}

    def observe(self, policy: str, binding: str, problem: str, seconds: float) -> None:
        """``problem`` is why a mutation could not be made; empty for one that was."""
        key = (policy, binding, error_type(problem) if problem else "no_error")
        times = self._checks.get(key)
        if times is None:
            times = self._checks[key] = Times(BUCKETS)
        times.add(seconds)

    def collect(self) -> Iterator[Metric]:
        what = "Mutation admission policy check total, labeled by policy and further identified by binding."
        total = CounterMetricFamily(f"{_PREFIX}_total", what, labels=_LABELS)
        text = "Mutation admission latency for individual mutation expressions in seconds, labeled by policy and binding."
        latency = HistogramMetricFamily(f"{_PREFIX}_duration_seconds", text, labels=_LABELS)
        for key, times in self._checks.items():
            total.add_metric(key, times.count)
            times.show(latency, key)
        yield from (total, latency)

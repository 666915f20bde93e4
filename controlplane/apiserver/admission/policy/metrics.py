"""How often validating policies allowed, denied, warned and noted, and how long one expression took: upstream's names."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from component.histogram import Times

BUCKETS = (0.0000005, 0.001, 0.01, 0.1, 1.0)
_LABELS = ("policy", "policy_binding", "error_type", "enforcement_action")
_OUT_OF_BUDGET = "validation failed due to running out of cost budget"
_PREFIX = "apiserver_validating_admission_policy_check"


class PolicyMetrics(Collector):
    def __init__(self) -> None:
        self._checks: dict[tuple[str, str, str, str], Times] = {}

    def observe(self, policy: str, binding: str, error_type: str, action: str, seconds: float) -> None:
        """``action`` is what came of it: allow, deny, audit or warn."""
        key = (policy, binding, error_type, action)
        times = self._checks.get(key)
        if times is None:
            times = self._checks[key] = Times(BUCKETS)
        times.add(seconds)

    def collect(self) -> Iterator[Metric]:
        what = "labeled by policy and further identified by binding and enforcement action taken."
        total = CounterMetricFamily(f"{_PREFIX}_total", f"Validation admission policy check total, {what}", labels=_LABELS)
        text = "Validation admission latency for individual validation expressions in seconds, labeled by policy and further"
        latency = HistogramMetricFamily(
            f"{_PREFIX}_duration_seconds", f"{text} including binding and enforcement action taken.", labels=_LABELS
        )
        for key, times in self._checks.items():
            total.add_metric(key, times.count)
            times.show(latency, key)
        yield from (total, latency)


def error_type(message: str) -> str:
    """Of a decision that did not plainly allow; upstream tells them apart by their texts as well."""
    if message.startswith("compilation"):
        return "compile_error"
    return "out_of_budget" if message.startswith(_OUT_OF_BUDGET) else "invalid_error"

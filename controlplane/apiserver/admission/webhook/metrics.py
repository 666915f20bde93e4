"""What became of calls to webhooks: upstream's names. Plain numbers on the way, read when somebody scrapes."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric, UntypedMetricFamily
from prometheus_client.registry import Collector

from component.histogram import Times
from controlplane.apiserver.admission.condition_metrics import ConditionMetrics

NO_ERROR, CALLING, INTERNAL = "no_error", "calling_webhook_error", "apiserver_internal_error"
_BUCKETS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0)
_PREFIX = "apiserver_admission_"
_Key = tuple[str, ...]
_HIGHEST = 600  # codes above count as this one


class WebhookMetrics(Collector):
    """``kind`` is ``admit`` or ``validating``."""

    def __init__(self) -> None:
        self._times: dict[_Key, Times] = {}
        self._requests: Counter[_Key] = Counter()
        self._rejections: Counter[_Key] = Counter()
        self._failed_open: Counter[_Key] = Counter()
        self.conditions = ConditionMetrics()

    def called(self, name: str, kind: str, operation: str, seconds: float, code: int, *, rejected: bool) -> None:
        said = "true" if rejected else "false"
        self._requests[name, kind, operation, str(min(code, _HIGHEST)), said] += 1
        key = (name, kind, operation, said)
        times = self._times.get(key)
        if times is None:
            times = self._times[key] = Times(_BUCKETS)
        times.add(seconds)

    def rejected(self, name: str, kind: str, operation: str, why: str, code: int) -> None:
        self._rejections[name, kind, operation, why, str(min(code, _HIGHEST))] += 1

    def failed_open(self, name: str, kind: str) -> None:
        self._failed_open[name, kind] += 1

    def collect(self) -> Iterator[Metric]:
        text = "Admission webhook latency histogram in seconds, identified by name and broken out for each operation and API"
        labels = ("name", "type", "operation")
        family = HistogramMetricFamily(
            f"{_PREFIX}webhook_admission_duration_seconds", f"{text} resource and type", labels=(*labels, "rejected")
        )
        for key, times in self._times.items():
            times.show(family, key)
        yield family
        yield _counter("webhook_request", "Admission webhook requests.", (*labels, "code", "rejected"), self._requests)
        yield _count(
            "webhook_rejection_count",
            "Admission webhook rejections.",
            (*labels, "error_type", "rejection_code"),
            self._rejections,
        )
        yield _count("webhook_fail_open_count", "Admission webhooks that failed open.", ("name", "type"), self._failed_open)
        yield from self.conditions.collect()


def _counter(name: str, text: str, labels: tuple[str, ...], counts: Counter[_Key]) -> CounterMetricFamily:
    family = CounterMetricFamily(f"{_PREFIX}{name}", text, labels=labels)
    for key, count in counts.items():
        family.add_metric(key, count)
    return family


def _count(name: str, text: str, labels: tuple[str, ...], counts: Counter[_Key]) -> UntypedMetricFamily:
    """A counter that upstream has given no ``_total``."""
    family = UntypedMetricFamily(f"{_PREFIX}{name}", text, labels=labels)
    for key, count in counts.items():
        family.add_metric(key, count)
    return family

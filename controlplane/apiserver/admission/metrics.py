"""How long admission took, by step and by plugin, and what PodSecurity found: upstream's names. Read when somebody scrapes."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from component.histogram import Times

ADMIT, VALIDATE = "admit", "validate"
_BUCKETS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)
_PREFIX = "apiserver_admission_"
_Step = tuple[str, str, str]
_Evaluation = tuple[str, str, str, str, str, str, str]


class AdmissionMetrics(Collector):
    def __init__(self) -> None:
        self._steps: dict[_Step, Times] = {}
        self._plugins: dict[tuple[str, str, str, str], Times] = {}
        self.evaluations: Counter[_Evaluation] = Counter()
        self.exemptions: Counter[_Step] = Counter()

    def step(self, phase: str, operation: str, rejected: bool, seconds: float) -> None:
        """All plugins of a phase (``admit`` or ``validate``)."""
        key = (phase, operation, "true" if rejected else "false")
        times = self._steps.get(key)
        if times is None:
            times = self._steps[key] = Times(_BUCKETS)
        times.add(seconds)

    def plugin(self, name: str, phase: str, operation: str, rejected: bool, seconds: float) -> None:
        key = (name, phase, operation, "true" if rejected else "false")
        times = self._plugins.get(key)
        if times is None:
            times = self._plugins[key] = Times(_BUCKETS)
        times.add(seconds)

    def collect(self) -> Iterator[Metric]:
        text = "Admission sub-step latency histogram in seconds, broken out for each operation and API resource and step type"
        labels = ("type", "operation", "rejected")
        steps = HistogramMetricFamily(f"{_PREFIX}step_admission_duration_seconds", text, labels=labels)
        for step, times in self._steps.items():
            times.show(steps, step)
        text = "Admission controller latency histogram in seconds, identified by name and broken out for each operation and API"
        plugins = HistogramMetricFamily(
            f"{_PREFIX}controller_admission_duration_seconds", f"{text} resource and type", labels=("name", *labels)
        )
        for plugin, times in self._plugins.items():
            times.show(plugins, plugin)
        yield from (steps, plugins)
        where = ("request_operation", "resource", "subresource")
        evaluations = CounterMetricFamily(
            "pod_security_evaluations_total",
            "Number of policy evaluations that occurred, not counting ignored or exempt requests.",
            labels=("decision", "policy_level", "policy_version", "mode", *where),
        )
        for evaluation, count in self.evaluations.items():
            evaluations.add_metric(evaluation, count)
        exemptions = CounterMetricFamily(
            "pod_security_exemptions_total",
            "Number of exempt requests, not counting ignored or out of scope requests.",
            labels=where,
        )
        for exemption, count in self.exemptions.items():
            exemptions.add_metric(exemption, count)
        yield from (evaluations, exemptions)

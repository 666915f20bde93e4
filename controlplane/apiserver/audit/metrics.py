"""How many audit events there were, and what became of them: upstream's names. ``filters.audit`` counts, a scrape reads."""

from collections import Counter
from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from controlplane.apiserver.audit.sinks import Sink


class AuditMetrics(Collector):
    """``sinks`` by the names of upstream's plugins: ``log``, ``webhook``."""

    def __init__(self, sinks: Sequence[tuple[str, Sink]] = ()) -> None:
        self._sinks = sinks
        self.levels: Counter[str] = Counter()
        self.events = 0

    def collect(self) -> Iterator[Metric]:
        text = "Counter of audit events generated and sent to the audit backend."
        yield CounterMetricFamily("apiserver_audit_event_total", text, value=self.events)
        text = "Counter of audit events that failed to be audited properly. Plugin identifies the plugin affected by the error."
        failed = CounterMetricFamily("apiserver_audit_error_total", text, labels=("plugin",))
        for plugin, sink in self._sinks:
            if sink.dropped:
                failed.add_metric((plugin,), sink.dropped)
        yield failed
        levels = CounterMetricFamily(
            "apiserver_audit_level_total", "Counter of policy levels for audit events (1 per request).", labels=("level",)
        )
        for level, count in self.levels.items():
            levels.add_metric((level,), count)
        yield levels
        text = "Counter of apiserver requests rejected due to an error in audit logging backend."
        yield CounterMetricFamily("apiserver_audit_requests_rejected_total", text, value=0)  # events never hold a request up

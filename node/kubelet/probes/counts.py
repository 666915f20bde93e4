"""What probes have said so far, for ``/metrics/probes``. The manager counts, ``server`` shows; a pod takes its series along."""

from collections.abc import Mapping
from typing import Any

from apimachinery.meta import name_of, namespace_of, uid_of
from component.metrics import Registry
from node.kubelet.probes.results import Kind, Outcome

_WORDS = {Outcome.SUCCESS: "successful", Outcome.FAILURE: "failed", Outcome.UNKNOWN: "unknown"}
_LABELS = ("probe_type", "container", "pod", "namespace", "pod_uid")
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class ProbeCounts:
    """In a registry of their own: the page has nothing else."""

    def __init__(self) -> None:
        self.registry = Registry(process=False)
        self._total = self.registry.counter("prober_probe_total", "Probes by outcome.", ("result", *_LABELS))
        self._seconds = self.registry.histogram(
            "prober_probe_duration_seconds",
            "How long probes took.",
            ("probe_type", "container", "pod", "namespace"),
            buckets=_BUCKETS,
        )
        self._series: dict[str, set[tuple[str, ...]]] = {}

    def count(self, pod: Mapping[str, Any], container: str, kind: Kind, outcome: Outcome, seconds: float) -> None:
        """One probe has ended."""
        where = (kind.value, container, name_of(pod), namespace_of(pod))
        self._total.labels(_WORDS[outcome], *where, uid_of(pod)).inc()
        self._seconds.labels(*where).observe(seconds)
        self._series.setdefault(uid_of(pod), set()).add((_WORDS[outcome], *where, uid_of(pod)))

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        for labels in self._series.pop(uid, ()):
            self._total.remove(*labels)
            self._seconds.remove(*labels[1:-1])

"""Metrics of one daemon: a registry of its own over prometheus_client, so that daemons sharing a process stay apart.

The daemon's wiring makes one Registry and hands it to parts; ``component.healthz`` serves it at ``/metrics``.
"""

from collections.abc import Sequence
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import generate_latest

from component.version import GIT_VERSION, MAJOR, MINOR

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
EXPONENTIAL_MS = tuple(0.001 * 2**power for power in range(15))
"""Buckets from 1 ms to 16 s, upstream's usual ones."""

_Metric = TypeVar("_Metric", Counter, Gauge, Histogram)


class Registry:
    """Makes metrics and writes them out. Names follow upstream's; asking twice for one name gives the same metric."""

    def __init__(self, *, process: bool = True) -> None:
        # upstream has no *_created series; they double the size of every scrape
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.collectors = CollectorRegistry(auto_describe=False)
        self._made: dict[str, Counter | Gauge | Histogram] = {}
        if process:
            ProcessCollector(registry=self.collectors)
            about = {"major": MAJOR, "minor": MINOR, "git_version": GIT_VERSION}
            text = "Version of this program; always 1."
            self.gauge("kubernetes_build_info", text, tuple(about)).labels(**about).set(1)

    def counter(self, name: str, help: str, labels: Sequence[str] = ()) -> Counter:  # noqa: A002 - Prometheus' word
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = Counter(name, help, labels, registry=self.collectors)
        return _same(made, Counter, name)

    def gauge(self, name: str, help: str, labels: Sequence[str] = ()) -> Gauge:  # noqa: A002
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = Gauge(name, help, labels, registry=self.collectors)
        return _same(made, Gauge, name)

    def histogram(
        self,
        name: str,
        help: str,  # noqa: A002
        labels: Sequence[str] = (),
        buckets: Sequence[float] = EXPONENTIAL_MS,
    ) -> Histogram:
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = Histogram(name, help, labels, buckets=tuple(buckets), registry=self.collectors)
        return _same(made, Histogram, name)

    def expose(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.collectors)


def _same(made: object, kind: type[_Metric], name: str) -> _Metric:
    if not isinstance(made, kind):
        raise TypeError(f"metric {name} is already registered as a {type(made).__name__}")
    return made

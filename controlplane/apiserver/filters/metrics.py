"""Counts and times every request. Plain integers on the way, Prometheus families only when somebody scrapes."""

import time
from bisect import bisect_left
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from controlplane.apiserver.filters.interface import Filter
from controlplane.apiserver.filters.long_running import is_long_running
from controlplane.apiserver.wire.call import Call

BUCKETS = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60)
_LABELS = ("verb", "group", "version", "resource", "subresource", "scope", "component", "dry_run")
_VERBS = {"list": "LIST", "get": "GET", "watch": "WATCH", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}

Key = tuple[str, str, str, str, str, str, str, str]


class _Times:
    __slots__ = ("buckets", "total")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BUCKETS) + 1)
        self.total = 0.0


class RequestMetrics(Collector):
    """``apiserver_request_total`` and the duration histograms, by upstream's names and labels."""

    def __init__(self) -> None:
        self._counts: dict[tuple[Key, int], int] = {}
        self._times: dict[Key, _Times] = {}

    def observe(self, key: Key, code: int, seconds: float, timed: bool) -> None:
        counted = (key, code)
        self._counts[counted] = self._counts.get(counted, 0) + 1
        if timed:
            times = self._times.get(key)
            if times is None:
                times = self._times[key] = _Times()
            times.buckets[bisect_left(BUCKETS, seconds)] += 1
            times.total += seconds

    def collect(self) -> Iterator[Metric]:
        total = CounterMetricFamily("apiserver_request", "Counter of apiserver requests.", labels=(*_LABELS, "code"))
        for (key, code), count in self._counts.items():
            total.add_metric((*key, str(code)), count)
        yield total
        for name, text in (
            ("apiserver_request_duration_seconds", "Response latency distribution in seconds."),
            ("apiserver_request_sli_duration_seconds", "Response latency distribution without time spent in webhooks."),
        ):
            family = HistogramMetricFamily(name, text, labels=_LABELS)
            for key, times in self._times.items():
                family.add_metric(key, *_cumulative(times))
            yield family


def _cumulative(times: _Times) -> tuple[list[tuple[str, float]], float]:
    reached, rows = 0, []
    for bound, count in zip((*map(str, BUCKETS), "+Inf"), times.buckets, strict=True):
        reached += count
        rows.append((bound, float(reached)))
    return rows, times.total


def measure(metrics: RequestMetrics) -> Filter:
    def step(call: Call) -> None:
        def finish(code: int) -> None:
            seconds = time.perf_counter() - call.started
            metrics.observe(key_of(call), code, seconds, not is_long_running(call))

        call.finishers.append(finish)

    return step


def key_of(call: Call) -> Key:
    info = call.info
    if not info.is_resource or not call.routed:
        # paths and names come from clients: an unbounded label would let them fill the memory
        return (_VERBS.get(info.verb, "other"), "", "", "", "", "", "apiserver", "")
    if info.verb in ("list", "watch", "deletecollection") or not info.name:
        scope = "namespace" if info.namespace else "cluster"
    else:
        scope = "resource"
    verb = _VERBS.get(info.verb, info.verb.upper() if info.verb == "deletecollection" else "other")
    dry_run = "All" if call.dry_run else ""
    return (verb, info.api_group, info.api_version, info.resource, info.subresource, scope, "apiserver", dry_run)

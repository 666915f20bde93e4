"""The metrics of cluster DNS, under CoreDNS' names. Plain numbers on the way of a query; Prometheus sees them when it scrapes."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from component.histogram import Times
from component.metrics import Registry
from netproxy.dns import wire
from netproxy.dns.cache import Cache

_SECONDS = tuple(0.00025 * 2**power for power in range(16))
"""CoreDNS' buckets: 0.25 ms to 8 s."""
_LABELS = ("server", "zone", "view")


class DNSMetrics:
    """Counters of one server. ``zone`` is the cluster's domain, or "." for what is forwarded."""

    def __init__(self, registry: Registry) -> None:
        self.requests: dict[tuple[str, str, int], int] = {}  # protocol, zone, type
        self.responses: dict[tuple[str, int], int] = {}  # zone, code
        self.times: dict[str, Times] = {}  # by zone
        self.rejected = registry.counter(
            "coredns_forward_max_concurrent_rejects",
            "Counter of the number of queries rejected because the concurrent queries were at maximum.",
        )
        self.upstream_seconds = registry.histogram(
            "coredns_proxy_request_duration_seconds",
            "Histogram of the time each request took.",
            ("proxy_name", "to", "rcode"),
            buckets=_SECONDS,
        )
        self.upstream_failures = registry.counter(
            "coredns_proxy_healthcheck_failures",
            "Counter of the number of failed healthchecks.",
            ("proxy_name", "to"),
        )

    def asked(self, protocol: str, zone: str, kind: int) -> None:
        key = (protocol, zone, kind if kind in wire.TYPES else 0)
        self.requests[key] = self.requests.get(key, 0) + 1

    def answered(self, zone: str, rcode: int, seconds: float) -> None:
        key = (zone, rcode)
        self.responses[key] = self.responses.get(key, 0) + 1
        times = self.times.get(zone)
        if times is None:
            times = self.times[zone] = Times(_SECONDS)
        times.add(seconds)


class DNSCollector(Collector):
    """Shows :class:`DNSMetrics` and the cache when Prometheus asks."""

    def __init__(self, metrics: DNSMetrics, cache: Cache, server: str) -> None:
        self._metrics, self._cache, self._server = metrics, cache, server

    def collect(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "coredns_dns_requests",
            "Counter of DNS requests made per zone, protocol and family.",
            labels=(*_LABELS, "proto", "type"),
        )
        for (protocol, zone, kind), count in self._metrics.requests.items():
            requests.add_metric((self._server, zone, "", protocol, wire.TYPES.get(kind, "other")), count)
        yield requests
        responses = CounterMetricFamily(
            "coredns_dns_responses", "Counter of response status codes.", labels=(*_LABELS, "rcode", "plugin")
        )
        for (zone, rcode), count in self._metrics.responses.items():
            plugin = "forward" if zone == "." else "kubernetes"
            responses.add_metric((self._server, zone, "", wire.rcode_text(rcode), plugin), count)
        yield responses
        times = HistogramMetricFamily(
            "coredns_dns_request_duration_seconds",
            "Histogram of the time (in seconds) each request took per zone.",
            labels=_LABELS,
        )
        for zone, held in self._metrics.times.items():
            held.show(times, (self._server, zone, ""))
        yield times
        yield from self._of_cache()

    def _of_cache(self) -> Iterator[Metric]:
        labels = ("server", "zones", "view")
        here = (self._server, ".", "")
        entries = GaugeMetricFamily("coredns_cache_entries", "The number of elements in the cache.", labels=labels)
        entries.add_metric(here, len(self._cache))
        yield entries
        for name, text, value in (
            ("hits", "The count of cache hits.", self._cache.hits),
            ("misses", "The count of cache misses.", self._cache.misses),
            ("evictions", "The count of cache evictions.", self._cache.evictions),
        ):
            family = CounterMetricFamily(f"coredns_cache_{name}", text, labels=labels)
            family.add_metric(here, value)
            yield family

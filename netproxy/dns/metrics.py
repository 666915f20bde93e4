"""The metrics of cluster DNS, under CoreDNS' names. Plain numbers on the way of a query; Prometheus sees them when it scrapes."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from component.histogram import Times
from component.metrics import Registry
from netproxy.dns import wire
from netproxy.dns.cache import Cache

_SECONDS = tuple(0.00025 * 2**power for power in range(16))
"""CoreDNS' buckets: 0.25 ms to 8 s."""
_BYTES = (0, 100, 200, 300, 400, 511, 1023, 2047, 4095, 8291, 16e3, 32e3, 48e3, 64e3)
"""CoreDNS' buckets."""
_LABELS = ("server", "zone", "view")
_PROGRAMMING = tuple(0.001 * 2**power for power in range(20))
"""From 1 ms to 9 min, CoreDNS' own."""


class _Times:
    """What one zone's queries by one protocol took: bytes in, bytes out, and seconds."""

    __slots__ = ("answered", "asked", "seconds")

    def __init__(self) -> None:
        self.asked, self.answered, self.seconds = Times(_BYTES), Times(_BYTES), Times(_SECONDS)


class DNSMetrics:
    """Counters of one server. ``zone`` is the cluster's domain, or "." for what is forwarded."""

    def __init__(self, registry: Registry) -> None:
        self.counts: dict[tuple[str, int, str, int, bool, int], int] = {}  # protocol, family, zone, type, DO, code
        self.times: dict[tuple[str, str], _Times] = {}  # by zone and protocol
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
        self.broken = registry.counter(
            "coredns_forward_healthcheck_broken",
            "Counter of the number of complete failures of the healthchecks.",
        )
        self.programming = registry.histogram(
            "coredns_kubernetes_dns_programming_duration_seconds",
            "Histogram of the time (in seconds) it took to program a dns instance.",
            ("service_kind",),
            buckets=_PROGRAMMING,
        )

    def answered(self, protocol: str, family: int, zone: str, query: wire.Query, rcode: int, size: int, seconds: float) -> None:
        """``family``: 1 for IPv4, 2 for IPv6. ``size`` is the answer's, in bytes."""
        key = (protocol, family, zone, query.type if query.type in wire.TYPES else 0, query.do, rcode)
        self.counts[key] = self.counts.get(key, 0) + 1
        times = self.times.get((zone, protocol))
        if times is None:
            times = self.times[zone, protocol] = _Times()
        times.asked.add(query.length)
        times.answered.add(size)
        times.seconds.add(seconds)


class DNSCollector(Collector):
    """Shows :class:`DNSMetrics` and the cache when Prometheus asks."""

    def __init__(self, metrics: DNSMetrics, cache: Cache, server: str) -> None:
        self._metrics, self._cache, self._server = metrics, cache, server

    def collect(self) -> Iterator[Metric]:
        requests, signed, responses = Counter[tuple[str, ...]](), Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
        for (protocol, family, zone, kind, do, rcode), count in self._metrics.counts.items():
            here = (self._server, zone, "")
            requests[*here, protocol, str(family), wire.TYPES.get(kind, "other")] += count
            signed[here] += count * do
            responses[*here, wire.rcode_text(rcode), "forward" if zone == "." else "kubernetes"] += count
        yield _counter(
            "requests", "Counter of DNS requests made per zone, protocol and family.", ("proto", "family", "type"), requests
        )
        yield _counter("do_requests", "Counter of DNS requests with DO bit set per zone.", (), signed)
        yield _counter("responses", "Counter of response status codes.", ("rcode", "plugin"), responses)
        yield from self._histograms()
        yield from self._of_cache()

    def _histograms(self) -> Iterator[Metric]:
        asked = _histogram("request_size_bytes", "Size of the request in bytes.", ("proto",))
        answered = _histogram("response_size_bytes", "Size of the returned response in bytes.", ("proto",))
        seconds = _histogram("request_duration_seconds", "Histogram of the time (in seconds) each request took per zone.")
        by_zone: dict[str, Times] = {}
        for (zone, protocol), held in self._metrics.times.items():
            held.asked.show(asked, (self._server, zone, "", protocol))
            held.answered.show(answered, (self._server, zone, "", protocol))
            by_zone.setdefault(zone, Times(_SECONDS)).merge(held.seconds)
        for zone, all_protocols in by_zone.items():
            all_protocols.show(seconds, (self._server, zone, ""))
        yield from (asked, answered, seconds)

    def _of_cache(self) -> Iterator[Metric]:
        labels, typed = ("server", "zones", "view"), ("server", "type", "zones", "view")
        cache = self._cache
        entries = GaugeMetricFamily("coredns_cache_entries", "The number of elements in the cache.", labels=typed)
        hits = CounterMetricFamily("coredns_cache_hits", "The count of cache hits.", labels=typed)
        for kind, count in cache.entries().items():
            entries.add_metric((self._server, kind, ".", ""), count)
            hits.add_metric((self._server, kind, ".", ""), cache.hits[kind])
        yield entries
        yield hits
        for name, text, value in (
            ("requests", "The count of cache requests.", sum(cache.hits.values()) + cache.misses),
            ("misses", "The count of cache misses. Deprecated, derive misses from cache hits/requests counters.", cache.misses),
            ("evictions", "The count of cache evictions.", cache.evictions),
            ("prefetch", "The number of times the cache has prefetched a cached item.", cache.prefetches),
            ("served_stale", "The number of requests served from stale cache entries.", cache.served_stale),
        ):
            family = CounterMetricFamily(f"coredns_cache_{name}", text, labels=labels)
            family.add_metric((self._server, ".", ""), value)
            yield family


def _counter(name: str, text: str, labels: tuple[str, ...], counts: Counter[tuple[str, ...]]) -> CounterMetricFamily:
    family = CounterMetricFamily(f"coredns_dns_{name}", text, labels=(*_LABELS, *labels))
    for values, count in counts.items():
        family.add_metric(values, count)
    return family


def _histogram(name: str, text: str, labels: tuple[str, ...] = ()) -> HistogramMetricFamily:
    return HistogramMetricFamily(f"coredns_dns_{name}", text, labels=(*_LABELS, *labels))

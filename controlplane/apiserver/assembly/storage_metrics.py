"""What the caches and the database tell about themselves, by upstream's metric names. Registered by ``assembly.server``.

Read when somebody scrapes; nothing is counted twice for it.
"""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from controlplane.apiserver.storage.cacher.cacher import Cacher, Stats
from controlplane.apiserver.storage.interface import Backend
from controlplane.apiserver.storage.layout import resource_of

_GAUGES: tuple[tuple[str, str, Callable[[Stats], int]], ...] = (
    ("apiserver_storage_objects", "Number of stored objects at the time of last check split by kind.", lambda s: s.objects),
    ("apiserver_watch_cache_watchers", "Watches that are being served.", lambda s: s.watchers),
    ("apiserver_watch_cache_history", "Changes held for watches that begin in the past.", lambda s: s.history),
    (
        "apiserver_watch_cache_resource_version",
        "Current resource version of watch cache broken by resource type.",
        lambda s: s.revision,
    ),
)
_COUNTERS: tuple[tuple[str, str, Callable[[Stats], int]], ...] = (
    ("apiserver_watch_cache_events_received", "Counter of events received in watch cache by resource type.", lambda s: s.events),
    (
        "apiserver_terminated_watchers",
        "Counter of watchers closed due to unresponsiveness by resource type.",
        lambda s: s.terminated,
    ),
)


class StorageMetrics(Collector):
    """``caches`` by key prefix."""

    def __init__(self, caches: Mapping[str, Cacher], backend: Backend) -> None:
        self._caches, self._backend = caches, backend

    def collect(self) -> Iterator[Metric]:
        stats = [(resource_of(prefix), cacher.stats()) for prefix, cacher in self._caches.items()]
        for name, text, read in _GAUGES:
            gauge = GaugeMetricFamily(name, text, labels=("resource",))
            for resource, each in stats:
                gauge.add_metric((resource,), read(each))
            yield gauge
        for name, text, read in _COUNTERS:
            counter = CounterMetricFamily(name, text, labels=("resource",))
            for resource, each in stats:
                counter.add_metric((resource,), read(each))
            yield counter
        if (size := self._backend.size()) is not None:
            yield GaugeMetricFamily("apiserver_storage_size_bytes", "Size of the storage database file in bytes.", value=size)

"""What values cost on their way into storage and back: upstream's names (``storage/value/metrics.go``, ``envelope/metrics``).

``transformers`` puts :class:`Measured` around each provider and gives the same :class:`Measures` to ``kms``; ``assembly.server``
registers them. Read when somebody scrapes.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from component.histogram import Times
from controlplane.apiserver.storage.encryption.interface import Transformer

FROM, TO = "from_storage", "to_storage"
_TRANSFORMATION = tuple(5e-6 * 2**power for power in range(25))
_GENERATION = tuple(5e-6 * 2**power for power in range(14))
_OPERATION = tuple(0.0001 * 2**power for power in range(20))
_KEYS = 10  # key ids that are shown at most, as upstream does: plugins make them up
_ENVELOPE = "apiserver_envelope_encryption_"


class Measures(Collector):
    """``server`` gives this server's identity, hashed as metrics show it."""

    def __init__(self) -> None:
        self.server: Callable[[], str] = str
        self.sources: Callable[[], Mapping[str, int]] = dict  # keys held, by provider
        self._times: dict[tuple[str, str], Times] = {}
        self._operations: Counter[tuple[str, str, str]] = Counter()
        self._calls: dict[tuple[str, str, str], Times] = {}
        self._generated, self._not_generated = Times(_GENERATION), 0
        self._misses = 0
        self._used: OrderedDict[tuple[str, str, str], tuple[int, float]] = OrderedDict()
        self._told: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._invalid: Counter[tuple[str, str]] = Counter()

    def transformed(self, direction: str, prefix: str, seconds: float, failure: Exception | None) -> None:
        self._operations[direction, prefix, _status(failure)] += 1
        if failure is None:
            times = self._times.get((direction, prefix))
            if times is None:
                times = self._times[direction, prefix] = Times(_TRANSFORMATION)
            times.add(seconds)

    def called(self, provider: str, method: str, seconds: float, failure: Exception | None) -> None:
        """One call to a plugin."""
        key = (provider, method, _status(failure))
        self._calls.setdefault(key, Times(_OPERATION)).add(seconds)

    def generated(self, seconds: float, failed: bool) -> None:
        """A seed for new values was made."""
        if failed:
            self._not_generated += 1
        else:
            self._generated.add(seconds)

    def missed(self) -> None:
        """A plugin had to be asked for a key that values are stored under."""
        self._misses += 1

    def key_used(self, direction: str, provider: str, key_hash: str) -> None:
        key = (direction, provider, key_hash)
        self._used[key] = (self._used.get(key, (0, 0.0))[0] + 1, time.time())
        self._used.move_to_end(key)
        if len(self._used) > _KEYS:
            self._used.popitem(last=False)

    def key_told(self, provider: str, key_hash: str) -> None:
        """By the plugin's status."""
        self._told[provider, key_hash] = time.time()
        self._told.move_to_end((provider, key_hash))
        if len(self._told) > _KEYS:
            self._told.popitem(last=False)

    def invalid_key(self, provider: str, error: str) -> None:
        self._invalid[provider, error] += 1

    def collect(self) -> Iterator[Metric]:
        yield from self._storage()
        yield from self._envelope()
        yield from self._keys()

    def _storage(self) -> Iterator[Metric]:
        labels = ("transformation_type", "transformer_prefix")
        name = "apiserver_storage_transformation"
        times = HistogramMetricFamily(
            f"{name}_duration_seconds", "Latencies in seconds of value transformation operations.", labels=labels
        )
        for key, each in self._times.items():
            each.show(times, key)
        total = CounterMetricFamily(f"{name}_operations_total", "Total number of transformations.", labels=(*labels, "status"))
        for operation, count in self._operations.items():
            total.add_metric(operation, count)
        text = "Latencies in seconds of data encryption key(DEK) generation operations."
        generated = HistogramMetricFamily("apiserver_storage_data_key_generation_duration_seconds", text, labels=())
        self._generated.show(generated, ())
        text = "Total number of failed data encryption key(DEK) generation operations."
        failed = CounterMetricFamily("apiserver_storage_data_key_generation_failures_total", text, value=self._not_generated)
        text = "Total number of cache misses while accessing key decryption key(KEK)."
        missed = CounterMetricFamily("apiserver_storage_envelope_transformation_cache_misses_total", text, value=self._misses)
        yield from (times, total, generated, failed, missed)

    def _envelope(self) -> Iterator[Metric]:
        text = "KMS operation duration with gRPC error code status total."
        labels = ("provider_name", "method_name", "grpc_status_code")
        calls = HistogramMetricFamily(f"{_ENVELOPE}kms_operations_latency_seconds", text, labels=labels)
        for key, each in self._calls.items():
            each.show(calls, key)
        text = "Number of records in data encryption key (DEK) source cache."
        sources = GaugeMetricFamily(f"{_ENVELOPE}dek_source_cache_size", text, labels=("provider_name",))
        for provider, count in self.sources().items():
            sources.add_metric((provider,), count)
        yield from (calls, sources)

    def _keys(self) -> Iterator[Metric]:
        server = self.server()
        labels = ("transformation_type", "provider_name", "key_id_hash", "apiserver_id_hash")
        text = "Number of times a keyID is used split by transformation type, provider, and apiserver identity."
        used = CounterMetricFamily(f"{_ENVELOPE}key_id_hash_total", text, labels=labels)
        text = "The last time in seconds when a keyID was used."
        last = GaugeMetricFamily(f"{_ENVELOPE}key_id_hash_last_timestamp_seconds", text, labels=labels)
        for key, (count, seconds) in self._used.items():
            used.add_metric((*key, server), count)
            last.add_metric((*key, server), seconds)
        text = "The last time in seconds when a keyID was returned by the Status RPC call."
        name = f"{_ENVELOPE}key_id_hash_status_last_timestamp_seconds"
        told = GaugeMetricFamily(name, text, labels=("provider_name", "key_id_hash", "apiserver_id_hash"))
        for found, seconds in self._told.items():
            told.add_metric((*found, server), seconds)
        text = "Number of times an invalid keyID is returned by the Status RPC call split by error."
        invalid = CounterMetricFamily(f"{_ENVELOPE}invalid_key_id_from_status_total", text, labels=("provider_name", "error"))
        for found, count in self._invalid.items():
            invalid.add_metric(found, count)
        yield from (used, last, told, invalid)


def _status(failure: Exception | None) -> str:
    """The name of a gRPC status, as Go has it."""
    return "OK" if failure is None else getattr(failure, "status", "") or "unknown-non-grpc"


class Measured:
    """A provider whose transformations are counted under its prefix. See ``Transformer``."""

    def __init__(self, transformer: Transformer, prefix: bytes, measures: Measures) -> None:
        self._transformer, self._prefix, self._measures = transformer, prefix.decode(), measures

    async def from_storage(self, data: bytes, key: bytes) -> tuple[bytes, bool]:
        begun, failure = time.perf_counter(), None
        try:
            return await self._transformer.from_storage(data, key)
        except Exception as problem:
            failure = problem
            raise
        finally:
            self._measures.transformed(FROM, self._prefix, time.perf_counter() - begun, failure)

    async def to_storage(self, data: bytes, key: bytes) -> bytes:
        begun, failure = time.perf_counter(), None
        try:
            return await self._transformer.to_storage(data, key)
        except Exception as problem:
            failure = problem
            raise
        finally:
            self._measures.transformed(TO, self._prefix, time.perf_counter() - begun, failure)

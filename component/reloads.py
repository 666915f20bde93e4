"""How often a configuration file was taken up again, and which content is in force: upstream's metrics of such a file."""

import hashlib
import time
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class Reloads:
    """What is known of one file. ``hash`` is that of the content in force."""

    def __init__(self, data: bytes | None = None) -> None:
        self.counts: dict[str, int] = {}
        self.last: dict[str, float] = {}
        self.hash = hash_of(data) if data is not None else ""

    def note(self, data: bytes | None) -> None:
        """A change was taken up, or could not be (None)."""
        status = "failure" if data is None else "success"
        self.counts[status] = self.counts.get(status, 0) + 1
        self.last[status] = time.time()
        if data is not None:
            self.hash = hash_of(data)


def hash_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class ReloadMetrics(Collector):
    """``name`` as in upstream's metrics (``authentication``); ``server`` gives this server's identity, which they show hashed."""

    def __init__(self, name: str, reloads: Reloads, server: Callable[[], str]) -> None:
        self._name, self._reloads, self._server = name, reloads, server

    def collect(self) -> Iterator[Metric]:
        prefix, server = f"apiserver_{self._name}_config_controller", hash_of(self._server().encode())
        text = f"Total number of automatic reloads of {self._name} configuration split by status and apiserver identity."
        labels = ("apiserver_id_hash", "status")
        counter = CounterMetricFamily(f"{prefix}_automatic_reloads_total", text, labels=labels)
        for status, count in self._reloads.counts.items():
            counter.add_metric((server, status), count)
        yield counter
        text = f"Timestamp of the last automatic reload of {self._name} configuration split by status and apiserver identity."
        last = GaugeMetricFamily(f"{prefix}_automatic_reload_last_timestamp_seconds", text, labels=labels)
        for status, seconds in self._reloads.last.items():
            last.add_metric((server, status), seconds)
        yield last
        text = f"Information about the last applied {self._name} configuration with hash as label, split by apiserver identity."
        info = GaugeMetricFamily(f"{prefix}_last_config_info", text, labels=("apiserver_id_hash", "hash"))
        if self._reloads.hash:
            info.add_metric((server, self._reloads.hash), 1)
        yield info

"""What ID tokens cost and when an issuer's keys were fetched: upstream's names. Given to ``oidc``, registered by ``assembly``."""

import time
from collections.abc import Callable, Iterator

from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from component.histogram import Times
from component.reloads import hash_of

_PREFIX = "apiserver_authentication_jwt_authenticator_"


class OIDCMetrics(Collector):
    """Issuers are shown hashed, and so is this server's name, which ``server`` gives."""

    def __init__(self, server: Callable[[], str] = str) -> None:
        self._server = server
        self._times: dict[tuple[str, str], Times] = {}
        self._fetched: dict[tuple[str, str], float] = {}
        self._keys: dict[str, str] = {}

    def judged(self, issuer: str, succeeded: bool, seconds: float) -> None:
        """A token that names the issuer."""
        key = ("success" if succeeded else "failure", hash_of(issuer.encode()))
        self._times.setdefault(key, Times()).add(seconds)

    def fetched(self, issuer: str, keys: bytes | None) -> None:
        """The issuer's keys as it sent them, or None when they could not be had."""
        hashed = hash_of(issuer.encode())
        self._fetched["failure" if keys is None else "success", hashed] = time.time()
        if keys is not None:
            self._keys[hashed] = hash_of(keys)

    def keep(self, issuers: list[str]) -> None:
        """Forget the keys of every other issuer."""
        kept = {hash_of(issuer.encode()) for issuer in issuers}
        self._keys = {issuer: keys for issuer, keys in self._keys.items() if issuer in kept}
        self._fetched = {key: seconds for key, seconds in self._fetched.items() if key[1] in kept}

    def collect(self) -> Iterator[Metric]:
        server = hash_of(self._server().encode())
        text = "Latency of jwt authentication operations in seconds, of tokens that are not remembered."
        labels = ("result", "jwt_issuer_hash")
        latency = HistogramMetricFamily(f"{_PREFIX}latency_seconds", text, labels=labels)
        for key, times in self._times.items():
            times.show(latency, key)
        text = "Timestamp of the last successful or failed JWKS fetch split by result, api server identity and jwt issuer."
        last = GaugeMetricFamily(f"{_PREFIX}jwks_fetch_last_timestamp_seconds", text, labels=(*labels, "apiserver_id_hash"))
        for key, seconds in self._fetched.items():
            last.add_metric((*key, server), seconds)
        text = "Information about the last JWKS fetched with hash as label, split by api server identity and jwt issuer."
        shown = ("jwt_issuer_hash", "apiserver_id_hash", "hash")
        info = GaugeMetricFamily(f"{_PREFIX}jwks_fetch_last_key_set_info", text, labels=shown)
        for issuer, keys in self._keys.items():
            info.add_metric((issuer, server, keys), 1)
        yield from (latency, last, info)

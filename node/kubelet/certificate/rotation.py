"""Renews a certificate well before it ends, by asking the cluster for the next one. ``kubelet`` runs one per certificate.

Upstream's client-go ``util/certificate``: between 70 and 90 % of its life, at random so that a thousand nodes that joined
together do not ask together; at once when it does not say what it should any more, or is not there.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from apimachinery import errors
from component import logs, x509
from component.clock import Clock
from component.tasks import Backoff
from component.x509 import Certificate, KeyPair
from node.kubelet.certificate.request import CertificateRequestError, Wanted
from node.kubelet.certificate.store import CertificateStore

LOOK_SECONDS = 60.0  # the longest that a change of what is wanted waits
_EARLIEST, _SPREAD = 0.7, 0.2  # of the lifetime
_log = logs.get(__name__)

Obtain = Callable[[bytes, Wanted], Awaitable[bytes]]
"""``request.obtain`` with a client: from a key to its certificate."""


def deadline(certificate: Certificate, rng: random.Random) -> datetime:
    """When to ask for the next one."""
    life = certificate.not_after - certificate.not_before
    return certificate.not_before + life * (_EARLIEST + _SPREAD * rng.random())


def says(certificate: Certificate, wanted: Wanted) -> bool:
    """Whether the certificate is for all that is wanted of it."""
    request = wanted.subject
    return (
        certificate.common_name == request.common_name
        and set(certificate.organizations) >= set(request.organizations)
        and set(certificate.dns_names) >= set(request.dns_names)
        and set(certificate.ip_addresses) >= set(request.ip_addresses)
    )


class Rotation:
    """Keeps the certificate of one store fresh. ``expires`` is the end of the present one, for metrics."""

    def __init__(
        self,
        store: CertificateStore,
        wanted: Callable[[], Wanted],
        obtain: Obtain,
        clock: Clock,
        rng: random.Random | None = None,
    ) -> None:
        self.available = asyncio.Event()  # set once there is a certificate that can be shown
        self.expires: datetime | None = None
        self.failures = 0
        self._store, self._wanted, self._obtain, self._clock = store, wanted, obtain, clock
        self._random = rng or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._due: tuple[str, datetime] | None = None

    async def run(self) -> None:
        """For ever."""
        backoff = Backoff(2.0, 300.0, clock=self._clock, rng=self._random)
        while True:
            pause = await self.step()
            await self._clock.sleep(backoff.step() if pause is None else pause)

    async def step(self) -> float | None:
        """Renew if it is time to. Returns for how many seconds there is nothing to do; None after a failure."""
        current = await asyncio.to_thread(self._store.current)
        certificate = x509.parse(current.certificate) if current is not None else None
        self.expires = certificate.not_after if certificate is not None else None
        if certificate is not None and certificate.not_after > self._clock.now():
            self.available.set()
        wait = self._wait(certificate)
        if wait > 0:
            return min(wait, LOOK_SECONDS)
        return LOOK_SECONDS if await self._renew() else None

    def _wait(self, certificate: Certificate | None) -> float:
        if certificate is None or not says(certificate, self._wanted()):
            return 0.0
        if self._due is None or self._due[0] != certificate.fingerprint:
            self._due = certificate.fingerprint, deadline(certificate, self._random)
            _log.info("Certificate rotation is due", name=self._store.path.name, at=self._due[1].isoformat(timespec="seconds"))
        return (self._due[1] - self._clock.now()) / timedelta(seconds=1)

    async def _renew(self) -> bool:
        wanted = self._wanted()
        key = await asyncio.to_thread(x509.new_key)
        try:
            certificate = await self._obtain(key, wanted)
            await asyncio.to_thread(self._store.update, KeyPair(certificate, key), self._clock.now())
        except (CertificateRequestError, errors.StatusError, ConnectionError, ValueError) as error:
            self.failures += 1
            _log.error("Cannot renew a certificate", name=self._store.path.name, signer=wanted.signer, err=error)
            return False
        self.expires = x509.parse(certificate).not_after
        self.available.set()
        _log.info("Renewed a certificate", name=self._store.path.name, expires=self.expires.isoformat(timespec="seconds"))
        return True


class RotationMetrics(Collector):
    """Upstream's names, read when somebody scrapes."""

    def __init__(self, name: str, rotation: Rotation, clock: Clock) -> None:
        """``name`` is ``client`` or ``server``."""
        self._name, self._rotation, self._clock = name, rotation, clock

    def collect(self) -> Iterator[Metric]:
        expires = self._rotation.expires
        left = (expires - self._clock.now()).total_seconds() if expires is not None else float("inf")
        text = f"Seconds until the kubelet's {self._name} certificate expires; negative when it has."
        yield GaugeMetricFamily(f"kubelet_certificate_manager_{self._name}_ttl_seconds", text, value=left)
        renewals = {
            "client": "kubelet_certificate_manager_client_expiration_renew_errors",
            "server": "kubelet_server_expiration_renew_errors",
        }
        yield GaugeMetricFamily(renewals[self._name], "Renewals that failed.", value=self._rotation.failures)

"""One leader among several copies of a daemon, by a Lease that the leader renews and the others watch for staleness.

``controller-manager`` and ``scheduler`` wrap their work in ``LeaderElector.run``.

Promised: a candidate takes over only after it has itself seen the record unchanged for a whole lease duration, so clocks
of different machines need not agree, only run at about the same speed. A leader that cannot renew within the renew
deadline stops its work before others may begin. A leader that was paused (its process, its machine) and wakes as one no
more sends no change: its client asks :meth:`LeaderElector.check` before each.
Not promised: that a change which was already on its way when the pause began arrives before the next leader's.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.resources import LEASES
from apimachinery.times import format_micro_time
from client.rest import Client, is_not_found
from component import logs
from component.clock import Clock, RealClock, timeout
from component.errors import OperatorError
from component.tasks import Backoff, jitter

_JITTER = 1.2
_log = logs.get(__name__)


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds; upstream's defaults. ``lease_duration`` > ``renew_deadline`` > 1.2 * ``retry_period``."""

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if self.lease_duration <= self.renew_deadline:
            raise ValueError("leaseDuration must be greater than renewDeadline")
        if self.renew_deadline <= _JITTER * self.retry_period:
            raise ValueError("renewDeadline must be greater than retryPeriod*JitterFactor")
        if self.retry_period <= 0:
            raise ValueError("retryPeriod must be greater than zero")


class LeadershipLostError(OperatorError):
    """The lease could not be renewed in time; the daemon ends, and whoever supervises it starts it as a candidate."""


class LeaderElector:
    """Competes for one Lease. ``identity`` must be unique among the candidates."""

    def __init__(
        self,
        client: Client,
        name: str,
        namespace: str = "kube-system",
        *,
        identity: str,
        timing: Timing | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        release_on_exit: bool = True,
        elapsed: Callable[[], float] | None = None,
    ) -> None:
        """``elapsed`` gives seconds that also pass while the machine sleeps; the clock's own by default."""
        self._client, self._name, self._namespace, self._identity = client, name, namespace, identity
        self._timing = timing or Timing()
        self._clock = clock or client.clock
        self._random = rng or random.Random()  # noqa: S311 - spreads load, guards nothing
        self._release_on_exit = release_on_exit
        self._lease: dict[str, Any] | None = None
        self._seen_at = 0.0
        self._renewed_at: float | None = None
        self._elapsed = elapsed or (_since_boot if isinstance(self._clock, RealClock) else self._clock.monotonic)

    @property
    def is_leader(self) -> bool:
        return self.holder == self._identity

    def check(self) -> None:
        """Whether others must still take this candidate for the leader. Raises LeadershipLostError when that is not sure.

        They wait a whole lease duration after they have seen a renewal, which was after it had been begun here. What lies
        between the last moment allowed here and then is for requests under way.
        """
        allowed = self._timing.retry_period + self._timing.renew_deadline
        if self._renewed_at is None or self._elapsed() - self._renewed_at > allowed:
            raise LeadershipLostError(f"the lease {self._namespace}/{self._name} may be another's by now: nothing is changed")

    @property
    def holder(self) -> str:
        """Who held the lease when it was last looked at; empty when nobody."""
        return str(self._spec.get("holderIdentity") or "")

    @property
    def _spec(self) -> dict[str, Any]:
        return (self._lease or {}).get("spec") or {}

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, then run ``lead`` while renewing; returns when ``lead`` returns.

        On cancellation ``lead`` is cancelled and awaited first, then the lease is given up.
        :raises LeadershipLostError: when renewing failed for the renew deadline; ``lead`` has been cancelled by then.
        """
        await self._acquire()
        _log.info("Became leader", lease=self._name, identity=self._identity)
        try:
            await self._lead_and_renew(lead)
        finally:
            if self._release_on_exit and self.is_leader:
                await asyncio.shield(self._release())

    async def _lead_and_renew(self, lead: Callable[[], Awaitable[None]]) -> None:
        async def work(renewing: asyncio.Task[None]) -> None:
            await lead()
            renewing.cancel()

        try:
            async with asyncio.TaskGroup() as group:
                renewing = group.create_task(self._renew(), name=f"renew:{self._name}")
                group.create_task(work(renewing), name=f"lead:{self._name}")
        except BaseExceptionGroup as failures:
            lost, other = failures.split(LeadershipLostError)
            if other is not None:
                raise other.exceptions[0] from None
            assert lost is not None
            raise LeadershipLostError(f"lost the lease {self._namespace}/{self._name}") from None

    async def _acquire(self) -> None:
        """Try until the lease is ours. A server that is only just starting is asked again sooner than a held lease."""
        failing = Backoff(0.1, self._timing.retry_period, clock=self._clock, rng=self._random)
        while True:
            try:
                if await self._take():
                    return
                pause = jitter(self._timing.retry_period, _JITTER, self._random)
            except (StatusError, ConnectionError) as error:
                _log.v(2, "Lease could not be taken", lease=self._name, err=error)
                pause = failing.step()
            await self._clock.sleep(pause)

    async def _renew(self) -> None:
        while True:
            await self._clock.sleep(self._timing.retry_period)
            try:
                async with timeout(self._clock, self._timing.renew_deadline):
                    while not await self._attempt():
                        if self.holder not in ("", self._identity):
                            raise LeadershipLostError(f"the lease is held by {self.holder}")
                        await self._clock.sleep(self._timing.retry_period)
            except TimeoutError:
                self._lease = None
                raise LeadershipLostError(f"not renewed for {self._timing.renew_deadline:g} s") from None

    async def _attempt(self) -> bool:
        """Renew the lease if that is allowed; False when it is not, or when the request failed."""
        try:
            return await self._take()
        except (StatusError, ConnectionError) as error:
            _log.v(2, "Lease could not be renewed", lease=self._name, err=error)
            return False

    async def _take(self) -> bool:
        if not self.is_leader:
            await self._look()
        begun = self._elapsed()
        if self._lease is None:
            self._observe(await self._client.create(LEASES, self._wanted(None)))
            self._renewed_at = begun
            return True
        if not self.is_leader and not self._stale():
            return False
        try:
            self._observe(await self._client.update(LEASES, self._wanted(self._lease)))
        except StatusError:
            # somebody else wrote it, or it is gone: what is there now decides
            await self._look()
            raise
        self._renewed_at = begun
        return True

    async def _look(self) -> None:
        try:
            self._observe(await self._client.get(LEASES, self._name, self._namespace))
        except StatusError as error:
            if not is_not_found(error):
                raise
            self._lease = None

    def _observe(self, lease: dict[str, Any]) -> None:
        """Note the record, and by our own clock when it last changed."""
        if self._lease is None or lease.get("spec") != self._spec:
            self._seen_at = self._clock.monotonic()
        self._lease = lease
        if not self.is_leader:
            self._renewed_at = None

    def _stale(self) -> bool:
        if not self.holder:
            return True
        promised = float(self._spec.get("leaseDurationSeconds") or self._timing.lease_duration)
        return self._clock.monotonic() >= self._seen_at + max(promised, self._timing.lease_duration)

    def _wanted(self, lease: dict[str, Any] | None) -> dict[str, Any]:
        now = self._clock.now()
        old = (lease or {}).get("spec") or {}
        mine = old.get("holderIdentity") == self._identity
        spec = {
            **old,
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(self._timing.lease_duration),
            "acquireTime": old["acquireTime"] if mine and old.get("acquireTime") else format_micro_time(now),
            "renewTime": format_micro_time(now),
            "leaseTransitions": int(old.get("leaseTransitions") or 0) + (0 if mine or lease is None else 1),
        }
        metadata = lease["metadata"] if lease else {"name": self._name, "namespace": self._namespace}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}

    async def _release(self) -> None:
        """Let the next candidate in at once instead of after the lease duration."""
        assert self._lease is not None
        now: datetime = self._clock.now()
        stamp = format_micro_time(now)
        spec = {**self._spec, "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": stamp, "acquireTime": stamp}
        try:
            async with timeout(self._clock, self._timing.retry_period):
                await self._client.update(LEASES, {**self._lease, "spec": spec})
        except (StatusError, ConnectionError, TimeoutError) as error:
            _log.warning("Lease could not be released", lease=self._name, err=error)
        self._lease = None


def _since_boot() -> float:
    """Seconds since the machine started, those it slept through included; asyncio's clock leaves them out."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)

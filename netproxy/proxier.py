"""The proxy's loop: pull changes > plan > apply > forget stale flows > tell. One task; made and started by ``__main__``.

Handlers of informers only call :meth:`Proxier.notify`. A sync that fails is followed by a full one, with growing pauses.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from component import logs
from component.clock import Clock, timeout
from component.tasks import Backoff
from netproxy import conntrack
from netproxy.backends.interface import Backend, BackendError
from netproxy.health import ProxyHealth
from netproxy.healthcheck import HealthCheckServers
from netproxy.journal import Journal
from netproxy.kernel.conntrack import Conntrack
from netproxy.metrics import ProxyMetrics
from netproxy.pace import Pace
from netproxy.plan import HealthCheck, PlanChange, PortRules, Verdict, health_checks, plan_port
from netproxy.trackers.endpoints import EndpointsTracker
from netproxy.trackers.nodes import NodeTracker
from netproxy.trackers.services import Family, PortName, ServiceTracker

_log = logs.get(__name__)
FULL_SYNC_PERIOD = 600.0
FULL_SYNC_PERIOD_LARGE = 3600.0
"""Where writing everything takes more than a second."""


@dataclass(frozen=True, slots=True)
class Trackers:
    services: ServiceTracker
    endpoints: EndpointsTracker
    node: NodeTracker


@dataclass(slots=True)
class _Round:
    """What one sync changes: rules before and after by port, health checks by service, moments that led here by service."""

    ports: dict[PortName, tuple[PortRules | None, PortRules | None]] = field(default_factory=dict)
    checks: dict[str, HealthCheck | None] = field(default_factory=dict)
    triggers: list[datetime] = field(default_factory=list)
    services: dict[str, None] = field(default_factory=dict)
    node: bool = False


class Proxier:
    """Keeps one family's rules what the trackers say."""

    def __init__(
        self,
        trackers: Trackers,
        backend: Backend,
        flows: Conntrack,
        clock: Clock,
        metrics: ProxyMetrics,
        *,
        pace: Pace,
        health: ProxyHealth,
        checks: HealthCheckServers | None = None,
        journal: Journal | None = None,
        sync_period: float = 30.0,
        family: Family = "IPv4",
    ) -> None:
        self.trackers, self._backend, self._flows = trackers, backend, flows
        self._clock, self._metrics, self._pace, self.health = clock, metrics, pace, health
        self._checks = checks
        self.journal = journal or Journal()
        self._sync_period = sync_period
        self.family: Family = family
        self._labels = (family,)
        self._ports: dict[PortName, PortRules] = {}
        self._wake = asyncio.Event()
        self._full_needed = True
        self._flows_checked = False
        self._last_full = (0.0, 0.0)  # when, and how long it took
        self._started = clock.now()
        self._no_local: dict[str, set[PortName]] = {"internal": set(), "external": set()}

    def notify(self) -> None:
        """Something is pending: wake the loop."""
        self._metrics.last_queued.labels(*self._labels).set(self._clock.now().timestamp())
        self.health.queued(self.family)
        self._wake.set()

    async def run(self) -> None:
        """Sync for ever. Call once the informers have synced: a partial view would take working rules away."""
        pauses = Backoff(0.5, 30.0, clock=self._clock)
        while True:
            await self._clock.sleep(self._pace.delay(self._clock.monotonic()))
            self._wake.clear()
            if await self.sync():
                pauses.reset()
                await self._rest()
            else:
                await self._clock.sleep(pauses.step())

    async def _rest(self) -> None:
        """Until woken, or a period has passed: then look whether somebody flushed our rules."""
        while True:
            try:
                async with timeout(self._clock, self._sync_period):
                    await self._wake.wait()
                return
            except TimeoutError:
                if await self._must_resync():
                    self._full_needed = True
                    return

    async def _must_resync(self) -> bool:
        when, cost = self._last_full
        if self._clock.monotonic() - when > (FULL_SYNC_PERIOD if cost < 1 else FULL_SYNC_PERIOD_LARGE):
            return True
        try:
            if await self._backend.intact():
                return False
        except BackendError as error:
            _log.warning("Cannot look whether the rules are still there", err=error)
            return False
        _log.warning("Somebody removed the proxy's rules, writing them again")
        return True

    async def sync(self) -> bool:
        """One round; whether it succeeded. After a failure nothing is lost: the next round is a full one."""
        begun = self._clock.monotonic()
        changed = self._pull()
        full = self._full_needed
        try:
            if full:
                await self._backend.resync(self._ports, self.trackers.node.facts)
            elif changed.ports or changed.node:
                current = {name: new for name, (_, new) in changed.ports.items()}
                await self._backend.apply(PlanChange(current, self.trackers.node.facts))
        except BackendError as error:
            self._failed(full, changed, error)
            return False
        self._full_needed = False
        seconds = self._clock.monotonic() - begun
        self._pace.synced(self._clock.monotonic(), seconds)
        self._tell(changed, seconds, full)
        await self._forget_flows(changed)
        return True

    def _pull(self) -> _Round:
        """Take what is pending and plan it. Only touched services are looked at, unless the node itself changed."""
        trackers = self.trackers
        services, endpoints = trackers.services.take(), trackers.endpoints.take()
        changed = _Round(services=dict.fromkeys([*services, *endpoints]))
        if trackers.node.take():
            self.health.eligible = trackers.node.facts.eligible
            changed.node = True
            self._plan(changed, {name.service for name in self._ports} | set(changed.services))
        else:
            self._plan(changed, changed.services)
        for change in endpoints.values():
            changed.triggers += change.triggers
        for service, (previous, _) in services.items():
            kept = {port.name for port in trackers.services.current(service)}
            for name in (port.name for port in previous):
                if name not in kept:
                    self._set(changed, name, None)
        return changed

    def _plan(self, changed: _Round, services: Iterable[str]) -> None:
        node = self.trackers.node.facts
        for service in services:
            ports, endpoints = self.trackers.services.current(service), self.trackers.endpoints.current(service)
            for port in ports:
                found = endpoints.get((port.name.port, port.name.protocol), ())
                self._set(changed, port.name, plan_port(port, found, node))
            changed.checks[service] = health_checks(ports, endpoints)

    def _set(self, changed: _Round, name: PortName, new: PortRules | None) -> None:
        old = self._ports.get(name)
        if old == new:
            return
        changed.ports[name] = (old, new)
        if new is None:
            del self._ports[name]
        else:
            self._ports[name] = new
        for policy, names in self._no_local.items():
            verdict = None if new is None else new.internal if policy == "internal" else new.external
            (names.add if verdict is Verdict.DROP else names.discard)(name)

    def _failed(self, full: bool, changed: _Round, error: BackendError) -> None:
        self._metrics.failures.labels(*self._labels).inc()
        if not full and self._metrics.mode == "iptables":
            self._metrics.partial_failures.labels(*self._labels).inc()
        _log.error("Cannot program the rules, trying again with all of them", full=full, err=error)
        self._full_needed = True
        self._flows_checked = False
        self.health.queued(self.family)

    def _tell(self, changed: _Round, seconds: float, full: bool) -> None:
        metrics, labels, now = self._metrics, self._labels, self._clock.now()
        metrics.sync.labels(*labels).observe(seconds)
        (metrics.full_sync if full else metrics.partial_sync).labels(*labels).observe(seconds)
        metrics.last_sync.labels(*labels).set(now.timestamp())
        if full:
            self._last_full = (self._clock.monotonic(), seconds)
        for trigger in changed.triggers:
            # what happened before this proxy started says nothing about its speed
            if trigger >= self._started.replace(microsecond=0):
                metrics.programming.labels(*labels).observe(max((now - trigger).total_seconds(), 0))
        for policy, names in self._no_local.items():
            metrics.no_local.labels(policy, *labels).set(len(names))
        self._note(changed, now, seconds)
        if self._checks is not None:
            self._checks.set(changed.checks, self.family)
        if not self.trackers.services.pending and not self.trackers.endpoints.pending:
            self.health.updated(self.family)
        _log.v(2, "Programmed", full=full, ports=len(changed.ports), seconds=round(seconds, 4))

    def _note(self, changed: _Round, now: datetime, seconds: float) -> None:
        """One line a service, with the number of distinct endpoints it has now."""
        for service in dict.fromkeys(name.service for name in changed.ports):
            merged = self.trackers.endpoints.current(service)
            ready = {each.ip for endpoints in merged.values() for each in endpoints if each.ready}
            self.journal.note(service, now, seconds, len(ready))

    async def _forget_flows(self, changed: _Round) -> None:
        """After the rules: a flow deleted before would be translated by the old rules again."""
        doubtful = conntrack.suspects(changed.ports.values()) if self._flows_checked else conntrack.everything(self._ports)
        self._flows_checked = True
        if not doubtful:
            return
        begun = self._clock.monotonic()
        try:
            flows = await self._flows.udp_flows()
            stale = conntrack.stale_flows(flows, doubtful, self.trackers.node.facts.addresses)
            if stale:
                deleted = await self._flows.delete(stale)
                self._metrics.conntrack_deleted.labels(*self._labels).inc(deleted)
                _log.v(2, "Forgot UDP flows to endpoints that are gone", count=deleted)
        except OSError as error:
            _log.error("Cannot forget stale UDP flows, clients that keep their port may reach nobody", err=error)
            self._flows_checked = False
        self._metrics.conntrack.labels(*self._labels).observe(self._clock.monotonic() - begun)

"""``pybernetes proxy``: flags and wiring. One proxier for each address family, all fed by the same informers."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Protocol

import click

from apimachinery.errors import StatusError
from apimachinery.resources import ENDPOINT_SLICES, NODES, SERVICES
from client import kubeconfig
from client.events import NORMAL, WARNING, Recorder
from client.informer import Informer, InformerFactory
from client.rest import Client
from component import logs
from component.daemon import Daemon, run
from component.metrics import Registry
from component.process import RealRunner
from component.serving import listening
from netproxy import config, server
from netproxy.backends.interface import Backend
from netproxy.backends.iptables import IPTablesBackend
from netproxy.cleanup import cleanup, remove_other_modes
from netproxy.families import Host, make_backends
from netproxy.health import ProxyHealth
from netproxy.healthcheck import HealthCheckServers
from netproxy.journal import Journal
from netproxy.kernel.conntrack import RealConntrack
from netproxy.kernel.sysctl import RealSysctl
from netproxy.metrics import ProxyMetrics
from netproxy.pace import Pace
from netproxy.proxier import Proxier, Trackers
from netproxy.trackers import endpoints, nodes, services
from netproxy.trackers.services import Family

_log = logs.get(__name__)
Object = dict[str, Any]
_DEPRECATED = "The ipvs proxier is now deprecated and may be removed in a future release. Please use 'nftables' instead."
ANY_IPV4 = "0.0.0.0"  # noqa: S104 - balancers ask from outside


class Tracker(Protocol):
    """What an informer feeds; both tell whether anything is pending."""

    def update(self, obj: Object) -> bool: ...

    def delete(self, obj: Object) -> bool: ...


async def main(options: Mapping[str, Any]) -> None:
    settings = config.read(options)
    if settings.cleanup:
        await cleanup()
        return
    try:
        credentials = kubeconfig.load(settings.kubeconfig)
    except kubeconfig.KubeconfigError as error:
        raise click.UsageError(f"--kubeconfig: {error}") from None
    async with Client(credentials, component="kube-proxy") as client:
        ranges = settings.cluster_cidrs
        if settings.detect_local != "ClusterCIDR":
            ranges = await node_ranges(client, settings.node_name) if settings.detect_local == "NodeCIDR" else ()
        runner, registry = RealRunner(), Registry()
        metrics = ProxyMetrics(registry, settings.mode)
        await remove_other_modes(settings.mode, runner)
        host = Host(RealSysctl(), client.clock, lambda family: metrics.cleanup_failures.labels(family).inc())
        backends = await make_backends(settings, runner, ranges, host)
        await Proxy(settings, client, backends, metrics, registry).run()


async def node_ranges(client: Client, name: str) -> tuple[str, ...]:
    """The node's pod ranges; waits until it has been given them."""
    while True:
        try:
            spec = (await client.get(NODES, name)).get("spec") or {}
            if spec.get("podCIDRs"):
                return tuple(spec["podCIDRs"])
            _log.info("Waiting for the node to be given its pod range", node=name)
        except (StatusError, ConnectionError) as error:
            _log.info("Waiting for the node", node=name, err=error)
        await client.clock.sleep(1)


class Proxy:
    """The parts of one proxy and their tasks."""

    def __init__(
        self,
        settings: config.Config,
        client: Client,
        backends: Mapping[Family, Backend],
        metrics: ProxyMetrics,
        registry: Registry,
    ) -> None:
        clock = client.clock
        self._settings = settings
        self._registry, self._metrics = registry, metrics
        settings.features.expose(self._registry)
        for warning in settings.features.warnings:
            _log.warning(warning)
        client.count_requests(self._registry)
        for family, backend in backends.items():
            if isinstance(backend, IPTablesBackend):
                for table in ("nat", "filter"):
                    self._metrics.rules.labels(table, family).set_function(partial(backend.rules_in, table))
        self._clock = clock
        self.health = ProxyHealth(clock, 2 * settings.sync_period, tuple(backends))
        self.journal = Journal()
        self._events = Recorder(client, "kube-proxy", settings.node_name, metrics=self._registry)
        self._anywhere = "" if "IPv6" in backends else ANY_IPV4
        self._checks = HealthCheckServers(lambda: self.health.healthy, self._anywhere, self._note_unchecked)
        self._proxiers = [self._proxier(family, backend) for family, backend in backends.items()]
        self._informers = InformerFactory(client)
        self._watch()

    def _proxier(self, family: Family, backend: Backend) -> Proxier:
        name = self._settings.node_name
        trackers = Trackers(services.ServiceTracker(family), endpoints.EndpointsTracker(name, family), nodes.NodeTracker(name))
        return Proxier(
            trackers,
            backend,
            RealConntrack(family),
            self._clock,
            self._metrics,
            pace=Pace(self._settings.min_sync_period, adaptive=not self._settings.min_sync_given),
            health=self.health,
            checks=self._checks,
            journal=self.journal,
            sync_period=self._settings.sync_period,
            family=family,
        )

    def _watch(self) -> None:
        """Informers hold only what trackers read; whatever may need a sync of a family wakes its proxier."""
        watch = self._informers.informer
        service = watch(SERVICES, label_selector=services.SELECTOR, transform=services.trimmed)
        endpoint_slice = watch(ENDPOINT_SLICES, label_selector=endpoints.SELECTOR, transform=endpoints.trimmed)
        node = watch(NODES, field_selector=f"metadata.name={self._settings.node_name}", transform=nodes.trimmed)
        for proxier in self._proxiers:
            _feed(service, proxier.trackers.services, proxier)
            _feed(endpoint_slice, proxier.trackers.endpoints, proxier)
            _feed(node, proxier.trackers.node, proxier)

    def _note_unchecked(self, service: str, why: str) -> None:
        namespace, _, name = service.partition("/")
        subject = {"kind": "Service", "apiVersion": "v1", "namespace": namespace, "name": name, "uid": service}
        self._events.event(subject, WARNING, "FailedToStartServiceHealthcheck", why, action="Listen")

    async def run(self) -> None:
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            await self._serve(stack)
            group.create_task(self._informers.run(), name="informers")
            group.create_task(self._events.run(), name="events")
            node = {"kind": "Node", "apiVersion": "v1", "name": self._settings.node_name, "uid": self._settings.node_name}
            self._events.event(node, NORMAL, "Starting", "", action="StartKubeProxy")
            if self._settings.mode == "ipvs":
                _log.error(_DEPRECATED)
                self._events.event(node, WARNING, "IPVSDeprecation", _DEPRECATED, action="StartKubeProxy")
            group.create_task(self._checks.run(), name="health-checks")
            await self._informers.wait_synced()
            _log.info("Programming services", mode=self._settings.mode)
            for proxier in self._proxiers:
                group.create_task(proxier.run(), name=f"proxier-{proxier.family}")

    async def _serve(self, stack: AsyncExitStack) -> None:
        if self._settings.healthz is not None:
            handler = server.health_handler(self.health, self._metrics, self._clock)
            host, port = self._settings.healthz
            wide = host in ("::", ANY_IPV4)
            await stack.enter_async_context(listening(handler, self._anywhere if wide else host, port, drain_seconds=1))
        if self._settings.metrics is not None:
            handler = server.metrics_handler(self._registry, self._settings.mode, self.journal)
            await stack.enter_async_context(listening(handler, *self._settings.metrics, drain_seconds=1))


def _feed(informer: Informer, tracker: Tracker, proxier: Proxier) -> None:
    def changed(obj: Object) -> None:
        if tracker.update(obj):
            proxier.notify()

    def deleted(obj: Object) -> None:
        if tracker.delete(obj):
            proxier.notify()

    informer.add_handler(on_add=changed, on_update=lambda old, new: changed(new), on_delete=deleted)


DAEMON = Daemon(
    "proxy",
    "Makes Services answer on this node: programs its packet filter from Services and EndpointSlices.",
    config.params(),
    main,
)

if __name__ == "__main__":
    run(DAEMON)

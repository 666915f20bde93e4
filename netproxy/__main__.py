"""``pybernetes proxy``: flags and wiring; the only place that names concrete classes. One family, IPv4, for now."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import click

from apimachinery.errors import StatusError
from apimachinery.resources import ENDPOINT_SLICES, NODES, SERVICES
from client import kubeconfig
from client.events import NORMAL, WARNING, Recorder
from client.informer import InformerFactory
from client.rest import Client
from component import logs
from component.daemon import Daemon, run
from component.errors import OperatorError
from component.metrics import Registry
from component.process import RealRunner, Runner
from component.serving import listening
from netproxy import config, server
from netproxy.backends.iptables import IPTablesBackend, Options
from netproxy.cleanup import cleanup
from netproxy.health import ProxyHealth
from netproxy.healthcheck import HealthCheckServers
from netproxy.journal import Journal
from netproxy.kernel import iptables
from netproxy.kernel.conntrack import RealConntrack
from netproxy.kernel.sysctl import RealSysctl
from netproxy.metrics import ProxyMetrics
from netproxy.pace import Pace
from netproxy.proxier import Proxier, Trackers
from netproxy.trackers import endpoints, nodes, services
from netproxy.tuning import tune_conntrack

_log = logs.get(__name__)


async def main(options: Mapping[str, Any]) -> None:
    settings = config.read(options)
    if settings.cleanup:
        await cleanup()
        return
    try:
        credentials = kubeconfig.load(settings.kubeconfig)
    except kubeconfig.KubeconfigError as error:
        raise click.UsageError(f"--kubeconfig: {error}") from None
    if not iptables.available("IPv4"):
        raise OperatorError("iptables is not installed: install the package iptables, or correct PATH (it needs /usr/sbin)")
    async with Client(credentials, component="kube-proxy") as client:
        ranges = settings.cluster_cidrs
        if settings.detect_local != "ClusterCIDR":
            ranges = await node_ranges(client, settings.node_name) if settings.detect_local == "NodeCIDR" else ()
        backend = await make_backend(settings, RealRunner(), ranges)
        await Proxy(settings, client, backend).run()


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


async def make_backend(settings: config.Config, runner: Runner, pod_ranges: Sequence[str]) -> IPTablesBackend:
    """The backend for this host, after its connection table was set up."""
    mode = await iptables.detect(runner)
    sysctl = RealSysctl()
    tune_conntrack(sysctl, settings.conntrack, os.cpu_count() or 1)
    options = Options(
        cluster_cidr=next((each for each in pod_ranges if ":" not in each), ""),
        pod_interface=settings.pod_interface,
        masquerade_all=settings.masquerade_all,
        masquerade_bit=settings.masquerade_bit,
        node_port_addresses=settings.node_port_addresses,
        localhost_node_ports=settings.localhost_node_ports,
        drop_invalid=sysctl.get("net/netfilter/nf_conntrack_tcp_be_liberal") != "1",
    )
    _log.info("Using iptables", variant=mode or "default", pods=options.from_pods)
    if not options.from_pods:
        _log.warning("Without --cluster-cidr pods cannot be told from outsiders, whose calls to cluster IPs are not answered")
    return IPTablesBackend(iptables.RealIPTables(runner, "IPv4", mode), sysctl, options)


class Proxy:
    """The parts of one proxy and their tasks."""

    def __init__(self, settings: config.Config, client: Client, backend: IPTablesBackend) -> None:
        clock = client.clock
        self._settings = settings
        self._registry = Registry()
        settings.features.expose(self._registry)
        for warning in settings.features.warnings:
            _log.warning(warning)
        client.count_requests(self._registry)
        self._metrics = ProxyMetrics(self._registry)
        for table in ("nat", "filter"):
            self._metrics.rules.labels(table, "IPv4").set_function(partial(backend.rules_in, table))
        self._clock = clock
        self.health = ProxyHealth(clock, 2 * settings.sync_period)
        self.journal = Journal()
        self._events = Recorder(client, "kube-proxy", settings.node_name, metrics=self._registry)
        self._checks = HealthCheckServers(lambda: self.health.healthy, on_failure=self._note_unchecked)
        self._trackers = Trackers(
            services.ServiceTracker(), endpoints.EndpointsTracker(settings.node_name), nodes.NodeTracker(settings.node_name)
        )
        self._proxier = Proxier(
            self._trackers,
            backend,
            RealConntrack(),
            clock,
            self._metrics,
            pace=Pace(settings.min_sync_period, adaptive=not settings.min_sync_given),
            health=self.health,
            checks=self._checks,
            journal=self.journal,
            sync_period=settings.sync_period,
        )
        self._informers = InformerFactory(client)
        self._watch()

    def _watch(self) -> None:
        """Informers hold only what trackers read; whatever may need a sync wakes the proxier."""
        trackers, name = self._trackers, self._settings.node_name
        sources: list[tuple[Any, Any, dict[str, Any], Any]] = [
            (trackers.services, SERVICES, {"label_selector": services.SELECTOR}, services.trimmed),
            (trackers.endpoints, ENDPOINT_SLICES, {"label_selector": endpoints.SELECTOR}, endpoints.trimmed),
            (trackers.node, NODES, {"field_selector": f"metadata.name={name}"}, nodes.trimmed),
        ]
        for tracker, resource, selection, transform in sources:
            informer = self._informers.informer(resource, transform=transform, **selection)

            def changed(_: dict[str, Any] | None, obj: dict[str, Any], tracker: Any = tracker) -> None:
                if tracker.update(obj):
                    self._proxier.notify()

            def deleted(obj: dict[str, Any], tracker: Any = tracker) -> None:
                if tracker.delete(obj):
                    self._proxier.notify()

            informer.add_handler(on_add=partial(changed, None), on_update=changed, on_delete=deleted)

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
            group.create_task(self._checks.run(), name="health-checks")
            await self._informers.wait_synced()
            _log.info("Programming services", mode=self._settings.mode)
            group.create_task(self._proxier.run(), name="proxier")

    async def _serve(self, stack: AsyncExitStack) -> None:
        if self._settings.healthz is not None:
            handler = server.health_handler(self.health, self._metrics, self._clock)
            await stack.enter_async_context(listening(handler, *self._settings.healthz, drain_seconds=1))
        if self._settings.metrics is not None:
            handler = server.metrics_handler(self._registry, self._settings.mode, self.journal)
            await stack.enter_async_context(listening(handler, *self._settings.metrics, drain_seconds=1))


DAEMON = Daemon(
    "proxy",
    "Makes Services answer on this node: programs its packet filter from Services and EndpointSlices.",
    config.params(),
    main,
)

if __name__ == "__main__":
    run(DAEMON)

"""The kubelet put together: every part is made here, handed what it needs, and run in one TaskGroup.

``sources`` > ``pod_manager`` > ``pod_workers`` (observe with ``pleg``, decide with ``runtime.actions``, act with
``runtime.manager``, tell with ``status``). Beside them: the node's status and lease, the pod network's configuration, log
rotation, housekeeping, and the HTTP servers. Nothing here decides anything about a pod.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from apimachinery.resources import NODES, SERVICES
from client import kubeconfig
from client.events import Recorder
from client.informer import InformerFactory
from client.rest import Client
from component import logs, serving, tls
from component.clock import Clock, RealClock
from component.healthz import Health, health_and_metrics_handler
from component.metrics import Registry
from component.process import RealRunner
from node.kubelet import certificates, machine, node_status
from node.kubelet.cgroups.manager import Cgroups
from node.kubelet.config import KubeletConfig
from node.kubelet.facade import Facade
from node.kubelet.housekeeping import Housekeeping
from node.kubelet.images.pull import ImagePuller
from node.kubelet.lease import NodeLease
from node.kubelet.mirror import MirrorPods
from node.kubelet.node_status import NodeReporter, RuntimeFacts
from node.kubelet.objects import CachedObjects
from node.kubelet.pleg import Pleg
from node.kubelet.pod_manager import PodManager
from node.kubelet.pod_sync import Tools
from node.kubelet.pod_workers import PodWorkers
from node.kubelet.probes.manager import ProbeManager
from node.kubelet.recorder import PodEvents
from node.kubelet.runtime import connection, dns
from node.kubelet.runtime.gate import Gate as StartGate
from node.kubelet.runtime.host import Host
from node.kubelet.runtime.logs import LogRotator
from node.kubelet.runtime.manager import RuntimeManager
from node.kubelet.server import auth, routes
from node.kubelet.sources import apiserver
from node.kubelet.sources.static_files import StaticFiles
from node.kubelet.stats.containers import CriStats
from node.kubelet.status import StatusManager
from node.kubelet.volumes.manager import Manager as VolumeManager
from node.network.manager import PodNetwork

_STARTS_AT_ONCE = 4
_log = logs.get(__name__)


class Kubelet:
    """One node agent. :func:`run` until cancelled; the containers go on without it."""

    def __init__(self, config: KubeletConfig, credentials: kubeconfig.Config, clock: Clock | None = None) -> None:
        self._config = config
        self._credentials = credentials
        self._clock = clock or RealClock()
        self._facts = RuntimeFacts(network_problem="the runtime has not been asked yet")
        self.ready = asyncio.Event()

    async def run(self) -> None:
        """Make everything, adopt what runs, and work."""
        facts = await asyncio.to_thread(machine.read_machine, self._config.root_dir)
        await asyncio.to_thread(self._make_root)
        self._config = await asyncio.to_thread(self._completed)
        link = connection.Connection(self._config.runtime_endpoint, self._config.image_endpoint)
        try:
            version = await connection.wait_for_runtime(link.runtime, self._clock)
            async with Client(self._credentials, component="kubelet", clock=self._clock) as client:
                await self._work(client, link, version, facts)
        finally:
            await link.close()

    def _make_root(self) -> None:
        self._config.root_dir.mkdir(parents=True, exist_ok=True, mode=0o750)
        self._config.pod_logs_dir.mkdir(parents=True, exist_ok=True, mode=0o755)

    def _completed(self) -> KubeletConfig:
        """The configuration with this machine's own address where none was given."""
        if self._config.node_ip:
            return self._config
        server = self._credentials.server.partition("://")[2].partition("/")[0]
        return replace(self._config, node_ip=machine.default_address(server))

    async def _work(self, client: Client, link: connection.Connection, version: str, facts: machine.Machine) -> None:
        config, clock = self._config, self._clock
        metrics, recorder = Registry(), Recorder(client, "kubelet", config.node_name, clock=clock)
        events, objects = PodEvents(recorder), CachedObjects(client, clock)
        mirrors = MirrorPods(client, clock, config.node_name)
        status = StatusManager(client, clock, mirrors.reported_as)
        mirrors.resend = status.resend
        informers = InformerFactory(client, clock)
        services, pods = informers.informer(SERVICES), apiserver.pod_informer(informers, config.node_name)
        allocatable = partial(node_status.allocatable, config, facts)
        host = Host(
            config=config,
            runtime=link.runtime,
            images=ImagePuller(link.images, objects, events, clock, parallel=self._parallel_pulls()),
            volumes=VolumeManager(objects, config.root_dir, allocatable=allocatable, clock=clock),
            objects=objects,
            cgroups=Cgroups(config),
            events=events,
            clock=clock,
            gate=StartGate(_STARTS_AT_ONCE),
            services=services.lister.list,
            allocatable=allocatable,
            memory_capacity=facts.memory_bytes,
            node_ips=lambda: (config.node_ip,),
            host_dns=self._host_dns,
            host_file=lambda: _read("/etc/hosts"),
        )
        async with asyncio.TaskGroup() as group:
            probes = ProbeManager(
                group, partial(connection.run_in_container, link.runtime), clock, events, lambda uid: workers.nudge(uid),
                lambda: config.node_ip,
            )  # fmt: skip
            pleg = Pleg(link.runtime, clock, lambda uid: workers.nudge(uid))
            manager = RuntimeManager(host)
            tools = Tools(
                host, pleg, manager, probes, status, lambda: self._facts.network_problem, lambda: version.partition(":")[0]
            )
            workers = PodWorkers(tools)
            wanted = PodManager(workers, status, events, allocatable, mirrors)
            look = partial(self._look, link, version, pleg, workers)
            reporter = NodeReporter(client, clock, config, facts, [config.node_ip], look, recorder)
            facade = Facade(
                config.node_name, link.runtime, wanted, pleg, status, config.pod_logs_dir, lambda: _listed(pleg.unhealthy())
            )  # fmt: skip
            for name, work in {
                "events": recorder.run(),
                "workers": workers.run(),
                "status": status.run(),
                "lease": NodeLease(client, clock, config.node_name, config.node_lease_duration_seconds).run(),
                "node status": reporter.run(),
                "logs": LogRotator(
                    link.runtime, clock, pleg.pods, config.container_log_max_size, config.container_log_max_files
                ).run(),
                "server": self._serve(facade, client, link, metrics),
                "healthz": self._serve_health(pleg),
            }.items():  # fmt: skip
                group.create_task(work, name=name)
            group.create_task(self._network(informers).run(), name="pod network")
            await self._first_look(pleg)
            if config.static_pod_path:  # these need no API server: it may be one of them
                static = StaticFiles(config.static_pod_path, config.node_name, clock, wanted.update, wanted.remove, workers.knows)
                group.create_task(static.run(), name="static pods")
            group.create_task(pleg.run(), name="pleg")
            group.create_task(informers.run(), name="informers")
            await services.wait_synced()  # pods get the services' variables from their first start
            apiserver.connect(pods, wanted.update, wanted.remove)
            await pods.wait_synced()
            group.create_task(mirrors.run(), name="mirror pods")
            self.ready.set()
            _log.info("Kubelet is working", node=config.node_name, pods=len(wanted.pods()))

            def collect() -> None:
                manager.collect()
                objects.collect()

            await Housekeeping(host, pleg, wanted, workers, collect, clock).run()

    async def _first_look(self, pleg: Pleg) -> None:
        """What runs must be known before any pod is decided upon, or it would be started a second time."""
        while pleg.unhealthy():
            try:
                await pleg.relist()
            except Exception as error:
                _log.warning("Cannot list containers yet", err=error)
                await self._clock.sleep(0.5)

    async def _look(self, link: connection.Connection, version: str, pleg: Pleg, workers: PodWorkers) -> RuntimeFacts:
        before = self._facts
        self._facts = await connection.look(link.runtime, link.images, version, pleg.unhealthy())
        if before.network_problem and not self._facts.network_problem:
            for uid in workers.uids():
                workers.nudge(uid)
        return self._facts

    def _parallel_pulls(self) -> int:
        if self._config.serialize_image_pulls:
            return 1
        return self._config.max_parallel_image_pulls or 1000

    def _host_dns(self) -> dns.ResolvConf:
        return dns.parse_resolv_conf(_read(str(self._config.resolv_conf))) if self._config.resolv_conf else dns.ResolvConf()

    def _network(self, informers: InformerFactory) -> PodNetwork:
        config = self._config
        network = PodNetwork(config.cni_conf_dir, config.cni_bridge, config.root_dir / "cni-ipam", RealRunner(), self._clock)
        if config.pod_cidr:
            network.set_cidrs(config.pod_cidr.split(","))
        else:
            node = informers.informer(NODES, field_selector=f"metadata.name={config.node_name}")
            node.add_handler(
                on_add=lambda node: network.set_cidrs(_pod_cidrs(node)),
                on_update=lambda old, new: network.set_cidrs(_pod_cidrs(new)),
            )
        return network

    # Servers

    async def _serve(self, facade: Facade, client: Client, link: connection.Connection, metrics: Registry) -> None:
        config = self._config
        certificate, key = await asyncio.to_thread(certificates.serving_files, config)
        context = tls.ReloadingServerContext(certificate, key, config.client_ca_file)
        gate = auth.Gate(client, config.node_name, self._clock)
        server = routes.Server(facade, gate, metrics, stats=CriStats(link.runtime, config.node_name), clock=self._clock)
        async with asyncio.TaskGroup() as group:
            group.create_task(context.watch(self._clock), name="serving certificate")
            await server.run(config.address, config.port, context.context)

    async def _serve_health(self, pleg: Pleg) -> None:
        if self._config.healthz_port <= 0:
            return
        health = Health()
        health.add("pleg", partial(_healthy, pleg))
        handler = health_and_metrics_handler(health)  # metrics are on the other port, behind its guard
        await serving.serve(handler, self._config.healthz_bind_address, self._config.healthz_port)


def _pod_cidrs(node: Mapping[str, Any]) -> Sequence[str]:
    spec = node.get("spec") or {}
    return spec.get("podCIDRs") or ([spec["podCIDR"]] if spec.get("podCIDR") else [])


def _healthy(pleg: Pleg) -> None:
    if problem := pleg.unhealthy():
        raise RuntimeError(problem)


def _listed(problem: str) -> list[str]:
    return [f"PLEG is not healthy: {problem}"] if problem else []


def _read(path: str) -> str:
    """A small file of /etc, read when a pod starts; empty if it is not there."""
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""

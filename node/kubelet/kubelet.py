"""The kubelet: its parts (``assembly``) run in one TaskGroup, in an order that starts nothing twice.

First everything that only tells (node, lease, servers); then one look at the runtime, so that what runs already is known;
only then the pods. Nothing here decides anything about a pod.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from apimachinery.errors import StatusError
from client import kubeconfig
from client.delegation import Ttls
from client.rest import Client
from component import logs, serving, tls
from component.clock import Clock, RealClock
from component.dynamic_certificates import CaBundle, Files, ServingCertificates, watch
from component.errors import OperatorError
from component.healthz import Health, health_and_metrics_handler
from component.metrics import Registry
from component.process import RealRunner
from component.tasks import Supervisor
from cri.errors import RuntimeServiceError
from node.kubelet import machine, userns
from node.kubelet.assembly import Given, Parts, assemble, problems
from node.kubelet.certificate.manager import Certificates
from node.kubelet.cgroups.systemd import Systemd
from node.kubelet.cm import container_manager
from node.kubelet.config import KubeletConfig, document
from node.kubelet.pleg import Pleg
from node.kubelet.podresources import server as podresources
from node.kubelet.recorder import NORMAL, node_event
from node.kubelet.runtime import connection
from node.kubelet.server import auth, routes
from node.kubelet.server.checkpoint import Checkpoints
from node.kubelet.server.metrics import Pages
from node.kubelet.server.node_logs import NodeLogs
from node.kubelet.sources import apiserver
from node.kubelet.stats.containers import CriStats
from node.kubelet.stats.network import pod_traffic

_NODE_LOGS = Path("/var/log")
_CSI_NODE_PERIOD = 60.0
_log = logs.get(__name__)


class Kubelet:
    """One node agent. :func:`run` until cancelled; the containers go on without it."""

    def __init__(
        self,
        config: KubeletConfig,
        credentials: kubeconfig.Config,
        clock: Clock | None = None,
        bootstrap: Path | None = None,
    ) -> None:
        """``bootstrap`` is a kubeconfig to join again with when the client certificate has expired."""
        self._config = config
        self._bootstrap = bootstrap
        self._credentials = credentials
        self._clock = clock or RealClock()
        self.ready = asyncio.Event()

    async def run(self) -> None:
        """Make everything, adopt what runs, and work."""
        facts = await asyncio.to_thread(machine.read_machine, self._config.root_dir)
        refuse_host(self._config, facts)
        for warning in self._config.features.warnings:
            _log.warning(warning)
        if self._config.ignored:
            _log.warning("Settings without effect in this kubelet", fields=list(self._config.ignored))
        config = self._config = await asyncio.to_thread(self._prepare)
        link, slices = connection.Connection(config.runtime_endpoint, config.image_endpoint), Systemd()
        try:
            kept = await asyncio.to_thread(container_manager.load, config)
            version = await connection.wait_for_runtime(link.runtime, self._clock)
            driver = await connection.cgroup_driver(link.runtime, config.cgroup_driver)
            config = self._config = replace(config, cgroup_driver=driver)
            certificates = Certificates(config, self._clock, self._bootstrap)
            credentials = await asyncio.to_thread(certificates.credentials, self._credentials)
            async with Client(credentials, component="kubelet", clock=self._clock) as client:
                metrics = Registry()
                client.count_requests(metrics)
                config.features.expose(metrics)
                certificates.start(client, metrics)
                ids = await _user_ids(config)
                given = Given(config, self._clock, client, link, version, facts, metrics, kept, slices, ids)
                await self._work(certificates, given)
        finally:
            slices.close()
            await link.close()

    def _prepare(self) -> KubeletConfig:
        """Make the directories; the configuration with this machine's own address where none was given."""
        self._config.root_dir.mkdir(parents=True, exist_ok=True, mode=0o750)
        for name in ("plugins", "plugins_registry"):
            (self._config.root_dir / name).mkdir(exist_ok=True, mode=0o750)
        self._config.pod_logs_dir.mkdir(parents=True, exist_ok=True, mode=0o755)
        if self._config.node_ip:
            return self._config
        server = self._credentials.server.partition("://")[2].partition("/")[0]
        return replace(self._config, node_ip=machine.default_address(server))

    async def _work(self, certificates: Certificates, given: Given) -> None:
        """Loops that can begin anew are kept: what goes wrong in one of them must not stop the node. The others, which hold
        state in their frames, take the kubelet down with them, and a fresh one adopts what runs."""
        async with asyncio.TaskGroup() as probes, Supervisor(self._clock) as tasks:
            parts = assemble(given, probes)
            await asyncio.to_thread(parts.claims.restore)
            enforced = await parts.cgroups.enforce()
            await asyncio.to_thread(parts.devices.restore)
            tasks.start("events", parts.recorder.run())
            for note in enforced:
                node_event(parts.recorder, given.node_name, NORMAL, "NodeAllocatableEnforced", note)
            tasks.start("workers", parts.workers.run())
            tasks.start("status", parts.status.run())
            for name, rotation in certificates.rotations.items():
                tasks.keep(f"{name} certificate", rotation.run)
            tasks.start("server", self._serve(certificates, given, parts))
            tasks.start("healthz", self._serve_health(parts))
            tasks.keep("lease", parts.lease.run)
            tasks.keep("node status", parts.reporter.run)
            tasks.keep("pod network", parts.network.run)
            if parts.routes is not None:
                tasks.keep("pod routes", parts.routes.run)
            tasks.keep("log rotation", parts.rotator.run)
            tasks.keep("DRA drivers", parts.dra_drivers.run)
            tasks.keep("plugins", parts.plugins.run)
            tasks.keep("device plugins", parts.devices.run)
            folder = given.config.root_dir / "pod-resources"
            tasks.keep("pod resources", partial(podresources.serve, folder, parts.pod_resources, self._clock))
            tasks.keep("volume usage", parts.volume_usage.run)
            tasks.keep("CSI node", partial(self._csi_node, parts))
            if parts.local_paths is not None:
                tasks.keep("local paths", parts.local_paths.run)
            await self._first_look(parts.pleg)
            if parts.pull_records is not None:
                await parts.pull_records.load()
                tasks.keep("records of pulls", parts.pull_records.run)
            await parts.look()  # or the first pods would be told that there is no network
            tasks.keep("pleg", parts.pleg.run)
            tasks.keep("resource managers", parts.managers.run)
            if parts.static_files is not None:  # these need no API server: it may be one of them
                tasks.keep("static pods", parts.static_files.run)
            if parts.static_url is not None:
                tasks.keep("static pods of a URL", parts.static_url.run)
            tasks.start("informers", parts.informers.run())
            await self._take_pods(parts)
            if parts.static_files is not None:
                await parts.static_files.looked.wait()
            tasks.keep("mirror pods", partial(_when_known, parts, parts.mirrors.run))
            tasks.keep("claims", parts.claims.run)
            tasks.keep("housekeeping", partial(_when_known, parts, parts.housekeeping.run))
            tasks.keep("eviction", parts.eviction.run)
            tasks.keep("image collection", parts.images.run)
            if parts.shutdown is not None:
                tasks.keep("shutdown", parts.shutdown.run)
            self.ready.set()
            _log.info("Kubelet is working", node=given.node_name, pods=len(parts.wanted.pods()))

    async def _csi_node(self, parts: Parts) -> None:
        """Once there is a Node, it has a CSINode, drivers or not."""
        pause = 1.0
        while True:
            try:
                await parts.drivers.ensure_node()
                pause = _CSI_NODE_PERIOD
            except (StatusError, OSError) as error:
                _log.v(2, "Cannot write the CSINode yet", err=error)
            await self._clock.sleep(pause)

    async def _first_look(self, pleg: Pleg) -> None:
        """What runs must be known before any pod is decided upon, or it would be started a second time."""
        while pleg.unhealthy():
            try:
                await pleg.relist()
            except RuntimeServiceError as error:
                _log.warning("Cannot list containers yet", err=error)
                await self._clock.sleep(0.5)

    async def _take_pods(self, parts: Parts) -> None:
        """Pods get the services' variables from their first start on, so services come first."""
        await parts.services.wait_synced()
        apiserver.connect(parts.pods, parts.wanted.update, parts.wanted.remove)
        await parts.pods.wait_synced()

    async def _serve(self, certificates: Certificates, given: Given, parts: Parts) -> None:
        config, runtime = given.config, given.link.runtime
        certificate, key = await certificates.serving_files()
        asked_for = (config.client_ca_file,) if config.client_ca_file is not None else ()
        profile = tls.profile(config.tls_min_version, config.tls_cipher_suites)
        shown_certificate = ServingCertificates(Files(certificate, key, asked_for, profile=profile))
        bundles = [CaBundle(path) for path in asked_for]
        ttls = Ttls(config.token_cache_ttl, config.authorized_cache_ttl, config.unauthorized_cache_ttl)
        gate = auth.Gate(given.client, given.node_name, self._clock, bundles[0].current if bundles else None, ttls)
        pages = Pages(
            given.metrics,
            CriStats(runtime, given.node_name, parts.pleg.pods),
            self._clock,
            parts.volume_usage,
            parts.probe_counts.registry,
            given.machine,
            lambda: pod_traffic(parts.wanted.active(), parts.process_of),
        )
        server = routes.Server(
            parts.facade,
            gate,
            given.metrics,
            pages=pages,
            node_logs=NodeLogs(_NODE_LOGS if config.enable_system_log_handler else None),
            checkpoints=Checkpoints(parts.facade, runtime, config.root_dir / "checkpoints", self._clock),
            configuration=document(config),
            clock=self._clock,
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(watch(self._clock, shown_certificate, *bundles), name="certificate files")
            await server.run(config.address, config.port, shown_certificate.context)

    async def _serve_health(self, parts: Parts) -> None:
        if self._config.healthz_port <= 0:
            return
        health = Health()
        health.add("pleg", partial(_check, lambda: problems(parts.pleg)))
        health.add("device-plugin", partial(_check, lambda: filter(None, [parts.devices.registration.problem()])))
        handler = health_and_metrics_handler(health)  # metrics are on the other port, behind its guard
        await serving.serve(handler, self._config.healthz_bind_address, self._config.healthz_port)


async def _user_ids(config: KubeletConfig) -> userns.IdRange:
    try:
        return await userns.host_range(RealRunner(), config.user_namespace_ids_per_pod, config.max_pods)
    except ValueError as error:
        raise OperatorError(f"kubelet mappings: {error}: mend /etc/subuid and /etc/subgid") from None


async def _when_known(parts: Parts, run: Callable[[], Awaitable[None]]) -> None:
    """What removes what is not wanted waits until every source has said what is; a URL may be a long time in coming."""
    if parts.static_url is not None:
        await parts.static_url.looked.wait()
    await run()


def refuse_host(config: KubeletConfig, facts: machine.Machine) -> None:
    """Raise OperatorError on a machine that the configuration rules out."""
    if config.fail_swap_on and facts.swap_bytes > 0:
        raise OperatorError("this machine swaps and failSwapOn is true: turn swap off (swapoff -a) or set failSwapOn: false")
    if config.fail_cgroup_v1 and facts.cgroup_version == 1:
        raise OperatorError("this machine has cgroup v1 and failCgroupV1 is true: boot with cgroup v2 or set failCgroupV1: false")
    if config.single_process_oom_kill is False and facts.cgroup_version == 1:
        raise OperatorError("singleProcessOOMKill must not be explicitly set to false when using cgroup v1")


def _check(problems: Callable[[], Iterable[str]]) -> None:
    for problem in problems():
        raise RuntimeError(problem)

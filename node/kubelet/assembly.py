"""The parts of a kubelet, each made of what it needs: the one place that names concrete classes. ``kubelet.py`` runs them.

Data flows one way: ``sources`` > ``pod_manager`` > ``pod_workers`` (observe with ``pleg``, decide with ``runtime.actions``,
act with ``runtime.manager``, tell with ``status``). What happens later reaches a worker only as a nudge.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

from apimachinery.meta import uid_of
from apimachinery.resources import NODES, SERVICES
from client.events import Recorder
from client.informer import Informer, InformerFactory
from client.rest import Client
from component.clock import Clock
from component.metrics import Registry
from component.process import RealRunner
from node.kubelet import apparmor, node_status, sysctl, userns
from node.kubelet.cgroups.manager import MOUNT, Cgroups
from node.kubelet.cgroups.systemd import Slices
from node.kubelet.cm import container_manager
from node.kubelet.cm.container_manager import ContainerManager
from node.kubelet.cm.cpu_manager import policy as cpu_policy
from node.kubelet.cm.device_manager.manager import DeviceManager, Surroundings
from node.kubelet.cm.device_manager.metrics import DeviceMetrics
from node.kubelet.cm.dra.manager import DraManager
from node.kubelet.cm.dra.metrics import DraMetrics
from node.kubelet.cm.dra.registry import DraRegistry
from node.kubelet.cm.memory_manager import policy as memory_policy
from node.kubelet.cm.metrics import ResourceMetrics
from node.kubelet.config import KubeletConfig
from node.kubelet.config_resources import LIMITED_SWAP
from node.kubelet.eviction import signals
from node.kubelet.eviction.manager import EvictionManager
from node.kubelet.eviction.node import RealNode
from node.kubelet.facade import Facade
from node.kubelet.housekeeping import Housekeeping
from node.kubelet.images import assembly as image_parts
from node.kubelet.images.assembly import RecordKeeper
from node.kubelet.images.credential_plugin import Accounts
from node.kubelet.images.gc import ImageCollector, Policy
from node.kubelet.images.keyring import Keyring
from node.kubelet.images.pull import ImagePuller
from node.kubelet.images.throttle import Throttle
from node.kubelet.lease import NodeLease
from node.kubelet.machine import Machine
from node.kubelet.metrics import KubeletMetrics
from node.kubelet.mirror import MirrorPods
from node.kubelet.node_status import NodeReporter, RuntimeFacts
from node.kubelet.objects import CachedObjects
from node.kubelet.pleg import Pleg
from node.kubelet.pluginregistration.watcher import PluginWatcher
from node.kubelet.pod_manager import PodManager
from node.kubelet.pod_sync import Tools
from node.kubelet.pod_workers import PodWorkers
from node.kubelet.podresources.metrics import PodResourcesMetrics
from node.kubelet.podresources.server import PodResources
from node.kubelet.probes.counts import ProbeCounts
from node.kubelet.probes.manager import ProbeManager
from node.kubelet.recorder import PodEvents
from node.kubelet.resize.allocations import Allocations
from node.kubelet.resize.plan import Fixed
from node.kubelet.runtime import connection, dns
from node.kubelet.runtime.gate import Gate
from node.kubelet.runtime.host import Host
from node.kubelet.runtime.logs import LogRotator
from node.kubelet.runtime.manager import RuntimeManager
from node.kubelet.runtime.resources import Node, may_swap
from node.kubelet.shutdown.logind import Logind
from node.kubelet.shutdown.manager import NOT_ADMITTED, NOT_READY, ShutdownManager
from node.kubelet.sources import apiserver, static_pods
from node.kubelet.sources.static_files import StaticFiles
from node.kubelet.sources.static_url import StaticUrl
from node.kubelet.stats.pods import PodUsage
from node.kubelet.stats.volumes import VolumeUsage
from node.kubelet.status import StatusManager
from node.kubelet.userns import IdRange, UserNamespaces
from node.kubelet.volumes.csi.in_use import InUse
from node.kubelet.volumes.csi.plugin import Csi
from node.kubelet.volumes.csi.registry import CsiRegistry
from node.kubelet.volumes.csi.resize import Resized
from node.kubelet.volumes.local_path import LocalPaths
from node.kubelet.volumes.manager import Manager as VolumeManager
from node.kubelet.volumes.pod_certificates import PodCertificates
from node.kubelet.volumes.tokens import Tokens
from node.network.manager import PodNetwork
from node.network.routes import NetlinkRoutes, PodRoutes

_STARTS_AT_ONCE = 4
_STATIC_PERIOD = 1.0  # looking at time stamps is cheap; upstream gets the same promptness from inotify


@dataclass(frozen=True, slots=True)
class Given:
    """What the parts are made of."""

    config: KubeletConfig
    clock: Clock
    client: Client
    link: connection.Connection
    runtime_version: str
    machine: Machine
    metrics: Registry
    kept: container_manager.Kept
    slices: Slices
    """Who makes cgroups when the driver is systemd."""
    user_ids: IdRange

    @property
    def node_name(self) -> str:
        return self.config.node_name


@dataclass(slots=True)
class RuntimeView:
    """The last answer about the runtime's health; pods without the host's network wait while it has a problem."""

    facts: RuntimeFacts

    def network_problem(self) -> str:
        return self.facts.network_problem


@dataclass(frozen=True, slots=True)
class Parts:
    """A kubelet's parts, ready to be run."""

    recorder: Recorder
    informers: InformerFactory
    services: Informer
    pods: Informer
    host: Host
    pleg: Pleg
    workers: PodWorkers
    wanted: PodManager
    mirrors: MirrorPods
    status: StatusManager
    reporter: NodeReporter
    managers: ContainerManager
    claims: DraManager
    dra_drivers: DraRegistry
    devices: DeviceManager
    pod_resources: PodResources
    lease: NodeLease
    network: PodNetwork
    routes: PodRoutes | None
    rotator: LogRotator
    housekeeping: Housekeeping
    eviction: EvictionManager
    images: ImageCollector
    pull_records: RecordKeeper | None
    shutdown: ShutdownManager | None
    probe_counts: ProbeCounts
    cgroups: Cgroups
    process_of: Callable[[Mapping[str, Any]], int | None]
    facade: Facade
    static_files: StaticFiles | None
    static_url: StaticUrl | None
    local_paths: LocalPaths | None
    drivers: CsiRegistry
    volume_usage: VolumeUsage
    plugins: PluginWatcher
    look: Callable[[], Awaitable[RuntimeFacts]]


def assemble(given: Given, group: asyncio.TaskGroup) -> Parts:
    """Make everything; ``group`` will hold the probes' tasks. Nothing runs yet."""
    config, clock, client, runtime = given.config, given.clock, given.client, given.link.runtime
    recorder, informers = Recorder(client, "kubelet", given.node_name, clock=clock), InformerFactory(client, clock)
    events, objects, metrics = PodEvents(recorder), CachedObjects(client, clock), KubeletMetrics(given.metrics, given.node_name)
    services = informers.informer(SERVICES)
    mirrors = MirrorPods(client, clock, given.node_name)
    status = StatusManager(client, clock, mirrors.reported_as)
    mirrors.resend = status.resend
    view = RuntimeView(RuntimeFacts(network_problem="the runtime has not been asked yet"))
    node = informers.informer(NODES, field_selector=f"metadata.name={given.node_name}")

    def seen() -> Mapping[str, Any] | None:
        return node.lister.get(given.node_name)

    drivers = CsiRegistry(client, given.node_name)
    cgroups = _cgroups(given, lambda pod: managers.unlimited(pod))
    keeper = image_parts.record_keeper(config, given.link.images, clock)
    host = replace(
        _host(given, cgroups, objects, _volumes(given, objects, drivers, events, seen), events, metrics, services, keeper),
        recursive_read_only=lambda: view.facts.recursive_read_only(),
        users=_users(given, lambda handler: view.facts.user_namespaces(handler)),
        pinning=lambda pod, container: managers.pinning(pod, container),
        claim_devices=lambda pod, container: claims.cdi_devices(pod, container),
        device_options=lambda pod, container: devices.run_options(pod, container),
    )

    def nudge(uid: str) -> None:
        workers.nudge(uid)

    run = partial(connection.run_in_container, runtime)
    counts = ProbeCounts()
    probes = ProbeManager(group, run, clock, events, nudge, lambda: config.node_ip, counts)
    pleg = Pleg(runtime, clock, nudge, metrics.relisted)
    manager = RuntimeManager(host, probes.ended)
    runtime_name = given.runtime_version.partition(":")[0]
    allocations = Allocations(config.pod_dir, host.allocatable, _fixed(config, host.limits))
    managers = container_manager.build(
        config,
        given.kept,
        runtime,
        pleg.pods,
        clock,
        ResourceMetrics(given.metrics),
        node_status.memory_kept(config, given.machine),
    )
    dra = DraMetrics(given.metrics)
    dra_drivers = DraRegistry(client, given.node_name, clock, dra)

    def may_run() -> set[str]:
        running = {uid for uid, observed in pleg.pods().items() if observed.stoppable()}
        return {uid_of(pod) for pod in wanted.pods()} | set(workers.uids()) | running

    extended = config.features.enabled("DRAExtendedResource")
    claims = DraManager(client, dra_drivers, config.root_dir, clock, dra, may_run, extended=extended)
    devices = _devices(given, managers, pleg, lambda: reporter.report_soon(), nudge)
    tools = Tools(host, pleg, manager, probes, status, view.network_problem, runtime_name, allocations, managers, claims)
    workers = PodWorkers(tools)

    def pressures() -> Sequence[str]:
        return eviction.conditions

    def closed() -> tuple[str, str] | None:
        return NOT_ADMITTED if shutdown is not None and shutdown.stopping else None

    confines = apparmor.is_enabled()

    def forbidden(pod: Mapping[str, Any]) -> tuple[str, str] | None:
        return sysctl.refuse(pod, config.allowed_unsafe_sysctls) or apparmor.refuse(pod, confines)

    wanted = PodManager(
        workers,
        status,
        events,
        host.allocatable,
        mirrors,
        seen,
        pressures,
        closed,
        allocations.view,
        forbidden,
        devices.managed,
    )
    allocations.count_against(wanted.taken)

    def ask_again() -> None:
        """Somebody may need less by now."""
        for uid in allocations.pending():
            workers.nudge(uid)

    def sweep() -> None:
        managers.sweep(may_run())

    cleaner = _image_collector(given, recorder)
    node_here = _eviction_node(given, cgroups, cleaner, wanted, workers, pleg)
    eviction = _eviction(given, node_here, events, recorder, cleaner)
    shutdown = _shutdown(given, node_here, recorder, lambda: reporter.report_soon())
    look = partial(_look, given, view, pleg, workers, pressures, closed)
    reporter = NodeReporter(
        client, clock, config, given.machine, [config.node_ip], look, recorder, seen, devices.capacity, lambda: devices.fresh
    )
    files, url = _static(given, wanted, workers, pleg)
    network = _network(given, informers)
    return Parts(
        recorder=recorder,
        informers=informers,
        services=services,
        pods=apiserver.pod_informer(informers, given.node_name),
        host=host,
        pleg=pleg,
        workers=workers,
        wanted=wanted,
        mirrors=mirrors,
        status=status,
        reporter=reporter,
        managers=managers,
        claims=claims,
        dra_drivers=dra_drivers,
        devices=devices,
        pod_resources=_pod_resources(given, wanted, workers, devices, managers, claims),
        lease=NodeLease(client, clock, given.node_name, config.node_lease_duration_seconds),
        network=network,
        routes=_routes(given, informers, network),
        rotator=LogRotator(runtime, clock, pleg.pods, config.container_log_max_size, config.container_log_max_files),
        eviction=eviction,
        images=cleaner,
        pull_records=keeper,
        shutdown=shutdown,
        probe_counts=counts,
        cgroups=cgroups,
        process_of=cgroups.process_of,
        housekeeping=Housekeeping(host, pleg, wanted, workers, [manager.collect, objects.collect, ask_again, sweep], clock),
        facade=Facade(given.node_name, runtime, wanted, pleg, status, config.pod_logs_dir, partial(problems, pleg)),
        static_files=files,
        static_url=url,
        local_paths=_local_paths(given, node),
        drivers=drivers,
        volume_usage=VolumeUsage(wanted.pods, host.volumes.stats, clock, config.volume_stats_period),
        plugins=PluginWatcher(
            config.root_dir / "plugins_registry",
            {"CSIPlugin": drivers, "DRAPlugin": dra_drivers, "DevicePlugin": devices.registration},
            clock,
            ("DRAPlugin",),
        ),
        look=look,
    )


def _devices(
    given: Given, managers: ContainerManager, pleg: Pleg, changed: Callable[[], None], nudge: Callable[[str], None]
) -> DeviceManager:
    tell_health = given.config.features.enabled("ResourceHealthStatus")

    def survives(uid: str) -> bool:
        return any(sandbox.ready for sandbox in pleg.get(uid).sandboxes)

    def turned(uid: str) -> None:
        if tell_health:
            nudge(uid)

    around = Surroundings(managers.topology, survives, changed, turned)
    folder, metrics = given.config.root_dir / "device-plugins", DeviceMetrics(given.metrics)
    devices = DeviceManager(folder, given.clock, metrics, around, given.kept.topology.nodes)
    managers.add_devices(devices, tell_health=tell_health)
    return devices


def _pod_resources(
    given: Given,
    wanted: PodManager,
    workers: PodWorkers,
    devices: DeviceManager,
    managers: ContainerManager,
    claims: DraManager,
) -> PodResources:
    def active() -> Sequence[Mapping[str, Any]]:
        return [pod for pod in wanted.pods() if not workers.terminated(uid_of(pod))]

    get = given.config.features.enabled("KubeletPodResourcesGet")
    metrics = PodResourcesMetrics(given.metrics)
    told = claims if given.config.features.enabled("KubeletPodResourcesDynamicResources") else None
    return PodResources(active, wanted.by_name, devices, managers, metrics, claims=told, get=get)


def _volumes(
    given: Given,
    objects: CachedObjects,
    drivers: CsiRegistry,
    events: PodEvents,
    node: Callable[[], Mapping[str, Any] | None],
) -> VolumeManager:
    config, client, clock, name = given.config, given.client, given.clock, given.node_name

    def csi(tokens: Tokens) -> Csi:
        used, resized = InUse(client, name, node), Resized(client, events, name)
        return Csi(config.root_dir, name, drivers, objects, tokens, clock, used, resized)

    allocatable = _allocatable(given)
    certificates = None
    if config.features.enabled("PodCertificateRequest"):
        certificates = PodCertificates(objects, clock, node, events.warning)
    return VolumeManager(
        objects,
        config.root_dir,
        allocatable=allocatable,
        clock=clock,
        node=node,
        csi=csi,
        local_paths=config.local_path_dir,
        warn=events.warning,
        certificates=certificates,
    )


def _local_paths(given: Given, node: Informer) -> LocalPaths | None:
    root = given.config.local_path_dir
    return LocalPaths(given.client, node, root, given.node_name, given.clock) if root is not None else None


def problems(pleg: Pleg) -> Sequence[str]:
    """Why ``/healthz`` must fail."""
    found = pleg.unhealthy()
    return [f"PLEG is not healthy: {found}"] if found else []


def _allocatable(given: Given) -> Callable[[], Mapping[str, str]]:
    """Neither the machine nor the configuration changes, and this is asked with every look at a pod: worked out once."""
    known = MappingProxyType(node_status.allocatable(given.config, given.machine))
    return lambda: known


def _host(
    given: Given,
    cgroups: Cgroups,
    objects: CachedObjects,
    volumes: VolumeManager,
    events: PodEvents,
    metrics: KubeletMetrics,
    services: Informer,
    keeper: RecordKeeper | None,
) -> Host:
    config, clock = given.config, given.clock
    allocatable = _allocatable(given)
    parallel = 1 if config.serialize_image_pulls else config.max_parallel_image_pulls or 1000
    return Host(
        config=config,
        runtime=given.link.runtime,
        images=ImagePuller(
            given.link.images,
            objects,
            events,
            clock,
            parallel=parallel,
            throttle=_throttle(given),
            keyring=_keyring(given, objects),
            records=keeper.records if keeper is not None else None,
        ),
        volumes=volumes,
        objects=objects,
        cgroups=cgroups,
        events=events,
        clock=clock,
        gate=Gate(_STARTS_AT_ONCE),
        metrics=metrics,
        refresh_period=objects.refresh_period,
        services=services.lister.list,
        allocatable=allocatable,
        limits=_limits(given),
        node_ips=lambda: (config.node_ip,),
        host_dns=partial(_host_dns, config),
        host_file=partial(_read, "/etc/hosts"),
    )


def _fixed(config: KubeletConfig, limits: Node) -> Fixed:
    """What a resize cannot change on this node."""
    owned = config.cpu_manager_policy == cpu_policy.STATIC, config.memory_manager_policy == memory_policy.STATIC
    return Fixed(*owned, swaps=lambda pod, container: may_swap(pod, container, limits))


def _limits(given: Given) -> Node:
    """What of configuration and machine decides about every container."""
    config, machine = given.config, given.machine
    return Node(
        memory=machine.memory_bytes,
        quota=config.cpu_cfs_quota,
        quota_period=round(config.cpu_cfs_quota_period * 1_000_000),
        cgroup_version=machine.cgroup_version,
        swap=config.swap_behavior == LIMITED_SWAP,
        swap_bytes=machine.swap_bytes,
        swap_controller=machine.swap_controller,
        hugepages=machine.hugepage_sizes,
        oom_group=machine.cgroup_version == 2 and not config.single_process_oom_kill,
    )


def _users(given: Given, supports: Callable[[str], bool]) -> UserNamespaces:
    """Blocks: reads what the pods of this node were given before."""
    config = given.config
    enabled = config.features.enabled(userns.GATE)
    users = UserNamespaces(given.user_ids, config.user_namespace_ids_per_pod, config.pod_dir, supports, enabled=enabled)
    folder = config.root_dir / "pods"
    users.load([entry.name for entry in folder.iterdir()] if folder.is_dir() else [])
    return users


def _keyring(given: Given, objects: CachedObjects) -> Keyring:
    accounts = Accounts(objects.service_account, objects.service_account_token)
    return image_parts.keyring(given.config, accounts, given.metrics, given.clock)


def _throttle(given: Given) -> Throttle | None:
    rate, burst = given.config.registry_pull_qps, given.config.registry_burst
    return Throttle(given.clock, rate, burst) if rate > 0 else None


def _cgroups(given: Given, unlimited: Callable[[Mapping[str, Any]], bool]) -> Cgroups:
    config, machine = given.config, given.machine
    allocatable = _allocatable(given)
    return Cgroups(
        config,
        allocatable=allocatable,
        pods_memory=node_status.pods_memory(config, machine),
        pods_pids=node_status.pods_pids(config, machine),
        node=_limits(given),
        unlimited=unlimited,
        slices=given.slices,
    )


def _image_collector(given: Given, recorder: Recorder) -> ImageCollector:
    config, link = given.config, given.link
    policy = Policy(
        high=config.image_gc_high_threshold_percent,
        low=config.image_gc_low_threshold_percent,
        min_age=config.image_minimum_gc_age,
        max_age=config.image_maximum_gc_age,
    )
    kept = partial(connection.sandbox_image, link.runtime)
    return ImageCollector(link.images, link.runtime, given.clock, policy, recorder, given.node_name, given.metrics, kept)


def _eviction_node(
    given: Given, cgroups: Cgroups, cleaner: ImageCollector, wanted: PodManager, workers: PodWorkers, pleg: Pleg
) -> RealNode:
    config, machine = given.config, given.machine
    bound = node_status.pods_memory(config, machine) if config.cgroups_per_qos else None
    all_pods = cgroups.real(PurePosixPath("/", config.cgroup_root.strip("/"), "kubepods"))
    places = signals.Places(
        config.root_dir,
        image_fs=lambda: cleaner.mountpoint,
        pods_working_set=partial(signals.pods_working_set, MOUNT, str(all_pods)),
        allocatable_memory=lambda: bound or 0,
    )
    measure = PodUsage(given.link.runtime, config, cgroups.processes)
    return RealNode(places, wanted, workers, pleg, measure)


def _eviction(given: Given, node: RealNode, events: PodEvents, recorder: Recorder, cleaner: ImageCollector) -> EvictionManager:
    config = given.config
    return EvictionManager(
        node,
        config.thresholds(),
        given.clock,
        events,
        recorder,
        given.node_name,
        given.metrics,
        transition=config.eviction_pressure_transition_period,
        max_grace=config.eviction_max_pod_grace_period,
        local_limits=config.local_storage_capacity_isolation,
        reclaim=[cleaner.delete_unused],
    )


def _shutdown(given: Given, pods: RealNode, recorder: Recorder, changed: Callable[[], None]) -> ShutdownManager | None:
    groups = given.config.shutdown_groups()
    if not groups:
        return None
    return ShutdownManager(Logind, groups, pods, given.clock, recorder, given.node_name, given.metrics, changed)


async def _look(
    given: Given,
    view: RuntimeView,
    pleg: Pleg,
    workers: PodWorkers,
    pressures: Callable[[], Sequence[str]],
    closed: Callable[[], tuple[str, str] | None],
) -> RuntimeFacts:
    """Ask the runtime how it is; pods that waited for the network hear at once that it has come."""
    before = view.facts
    facts = await connection.look(given.link.runtime, given.link.images, given.runtime_version, pleg.unhealthy())
    stopping = [NOT_READY] if closed() else []
    view.facts = replace(facts, pressures=pressures(), problems=[*facts.problems, *stopping])
    if before.network_problem and not view.facts.network_problem:
        for uid in workers.uids():
            workers.nudge(uid)
    return view.facts


def _network(given: Given, informers: InformerFactory) -> PodNetwork:
    config = given.config
    network = PodNetwork(config.cni_conf_dir, config.cni_bridge, config.root_dir / "cni-ipam", RealRunner(), given.clock)
    if config.pod_cidr:
        network.set_cidrs(config.pod_cidr.split(","))
    else:
        node = informers.informer(NODES, field_selector=f"metadata.name={given.node_name}")
        node.add_handler(
            on_add=lambda node: network.set_cidrs(node_status.pod_cidrs(node)),
            on_update=lambda old, new: network.set_cidrs(node_status.pod_cidrs(new)),
        )
    return network


def _routes(given: Given, informers: InformerFactory, network: PodNetwork) -> PodRoutes | None:
    if given.config.pod_routes != "direct":
        return None
    routes = PodRoutes(NetlinkRoutes(), given.node_name, given.clock, network.set_others)
    nodes = informers.informer(NODES)
    nodes.add_handler(
        on_add=routes.node_changed, on_update=lambda old, new: routes.node_changed(new), on_delete=routes.node_removed
    )
    return routes


def _static(given: Given, wanted: PodManager, workers: PodWorkers, pleg: Pleg) -> tuple[StaticFiles | None, StaticUrl | None]:
    config, name, clock = given.config, given.node_name, given.clock

    def replaced(pod: static_pods.Pod) -> bool:
        """Something that the pod's manifest said before this kubelet started runs still: have it ended."""
        former = [uid for uid in static_pods.former(pod, pleg.pods()) if wanted.get(uid) is None]
        for uid in former:
            workers.clear(uid)
        return bool(former)

    def pods() -> static_pods.StaticPods:
        return static_pods.StaticPods(wanted.update, wanted.remove, workers.knows, replaced)

    files, url = None, None
    if config.static_pod_path is not None:
        period = min(_STATIC_PERIOD, config.file_check_frequency)
        files = StaticFiles(config.static_pod_path, name, clock, pods(), period)
    if config.static_pod_url:
        headers = config.static_pod_url_header
        url = StaticUrl(config.static_pod_url, headers, name, clock, pods(), config.http_check_frequency)
    return files, url


def _host_dns(config: KubeletConfig) -> dns.ResolvConf:
    return dns.parse_resolv_conf(_read(str(config.resolv_conf))) if config.resolv_conf else dns.ResolvConf()


def _read(path: str) -> str:
    """A small file of /etc, read when a pod starts; empty if it is not there."""
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""

"""The whole server, running: storage, then resources, then the listener, then what must exist in every cluster."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from apimachinery import schema
from apimachinery.gvk import GroupVersion
from component import logs
from component.clock import RealClock
from component.dynamic_certificates import CaBundle, Files, ServingCertificates, watch
from component.healthz import Health
from component.metrics import Registry
from component.reloads import ReloadMetrics, hash_of
from component.serving import Address, listening
from component.tasks import Supervisor
from controlplane.apiserver import chain
from controlplane.apiserver.admission.catalog import Dial
from controlplane.apiserver.admission.metrics import AdmissionMetrics
from controlplane.apiserver.admission.webhook.wiring import Webhooks
from controlplane.apiserver.assembly import aggregation, custom_resources, identity, paths, resource_metrics, resources, storage
from controlplane.apiserver.assembly.admission import chain_for, webhooks_in
from controlplane.apiserver.assembly.auditing import auditing
from controlplane.apiserver.assembly.authorizers import Authorizers, Sources
from controlplane.apiserver.assembly.flow_control import Note, seats_for
from controlplane.apiserver.assembly.policies import Kinds, policies_of
from controlplane.apiserver.assembly.reloading import LOOK_SECONDS, ConfigFile
from controlplane.apiserver.assembly.remote import Remote, dialler, remote
from controlplane.apiserver.assembly.roles import RoleIndex
from controlplane.apiserver.assembly.served import listed_resources
from controlplane.apiserver.assembly.storage_metrics import StorageMetrics
from controlplane.apiserver.authorization.interface import Authorizer
from controlplane.apiserver.config import Config, Identity
from controlplane.apiserver.crd.definition import RESOURCE as DEFINITIONS
from controlplane.apiserver.crd.resource import Surroundings
from controlplane.apiserver.endpoints import connect
from controlplane.apiserver.endpoints.componentstatus import ComponentStatuses, Probe, healthz
from controlplane.apiserver.endpoints.connect_kubelet import Kubelets
from controlplane.apiserver.endpoints.reviews import Judges
from controlplane.apiserver.endpoints.scope import Scope
from controlplane.apiserver.endpoints.watch import OpenWatches
from controlplane.apiserver.filters.access_metrics import AccessMetrics
from controlplane.apiserver.filters.authorize import authorize
from controlplane.apiserver.filters.interface import Filter
from controlplane.apiserver.filters.metrics import RequestMetrics
from controlplane.apiserver.kinds import older, served
from controlplane.apiserver.kinds.catalog import strategies
from controlplane.apiserver.kinds.config import KindsConfig
from controlplane.apiserver.poststart import PostStart
from controlplane.apiserver.registry.store import Store
from controlplane.apiserver.registry.strategy import Strategy
from controlplane.apiserver.routing import Router, routes_of
from controlplane.apiserver.server import Handler, server_for
from controlplane.apiserver.service_client import Users
from controlplane.apiserver.storage.encryption.transformers import Encryption
from controlplane.apiserver.storage.interface import Backend
from controlplane.apiserver.wire.info import RequestInfo

_log = logs.get(__name__)
MEND_SECONDS = 10.0  # upstream looks after the kubernetes Service as often


@dataclass(frozen=True, slots=True)
class Running:
    """A server that answers."""

    address: Address
    stores: dict[str, Store]
    backend: Backend
    health: Health
    encryption: "Encryption | None" = None


@dataclass(frozen=True, slots=True)
class _Base:
    """What everything else stands on. ``backend`` is where most is."""

    places: storage.Stores
    backend: Backend
    kinds: list[Strategy]
    caches: storage.Caches
    stores: dict[str, Store]
    health: Health
    metrics: Registry


@dataclass(frozen=True, slots=True)
class _Live:
    """What requests share while the server runs."""

    watches: OpenWatches
    roles: RoleIndex
    kubelets: Kubelets
    streams: connect.OpenStreams
    remote: Remote
    authorizers: Authorizers
    dial: Dial
    webhooks: Webhooks
    aggregation: aggregation.Aggregation


@dataclass(frozen=True, slots=True)
class _Wired:
    seats: Filter
    router: Router
    believed: identity.Believed
    authorizer: Authorizer


@contextlib.asynccontextmanager
async def running(config: Config) -> AsyncIterator[Running]:
    """Ready inside the block. Leaving it drains: no new connections, watches end, requests get a moment to finish."""
    async with contextlib.AsyncExitStack() as stack:
        base = await _open(config, stack)
        versions = {GroupVersion(*one.info.gvk[:2]) for one in listed_resources(base.kinds)}
        poststart = PostStart(config, base.stores, versions, base.backend)
        _add_checks(base.health, base.places.all(), poststart)
        supervisor = await stack.enter_async_context(Supervisor())
        stack.callback(supervisor.stop)
        if (encryption := base.places.encryption) is not None:
            base.health.add("kms-providers", encryption.check)
            encryption.catch_up = base.caches.catch_up
            encryption.measures.server = lambda: hash_of(poststart.name.encode())
            base.metrics.collectors.register(encryption.measures)
            base.metrics.collectors.register(ReloadMetrics("encryption", encryption.reloads, lambda: poststart.name))
            supervisor.start("encryption", encryption.run(config.storage.encryption_reload))
        live = await _make_live(config, base.stores, base.metrics, supervisor, stack)
        wired = _wire(config, base, live, supervisor, poststart.note_dangling, lambda: poststart.name)
        await _follow_files(config.identity, wired.believed, live, base.metrics, lambda: poststart.name, supervisor)
        parts = await _chain_parts(config, base, wired, stack)
        await poststart.prepare()  # whoever gets in first finds the roles in force that say what they may
        await live.roles.caught_up()
        await live.aggregation.services.synced.wait()  # nor may a request be taken for one of ours that is another server's
        handler = chain.handler(parts, wired.router)
        address = await _listen(config, handler, wired.believed.bundles, base.health, live, supervisor, stack)
        where = advertised(config), address.port
        stack.push_async_callback(poststart.leave, address.port)
        await poststart.run(*where)
        live.aggregation.register(supervisor)
        supervisor.every("system-objects", MEND_SECONDS, lambda: poststart.mend(*where))
        _log.info("Serving", address=address.url, storage=config.storage.backend)
        yield Running(address, base.stores, base.backend, base.health, base.places.encryption)


async def _open(config: Config, stack: contextlib.AsyncExitStack) -> _Base:
    places = await storage.open_storage(config.storage, stack)
    backend = places.main
    known = strategies(KindsConfig(config.service_ranges, config.node_ports, config.event_ttl, config.features, backend))
    for place in places.all():
        place.convert = older.conversion(known)
    kinds = served.select(known, config.runtime_config, config.features)
    stored = served.stored(known, kinds)
    metrics = Registry()
    config.features.expose(metrics)
    for warning in config.features.warnings:
        _log.warning(warning)
    caches = await stack.enter_async_context(storage.running_caches(places, stored))
    return _Base(places, backend, kinds, caches, resources.stores_for([*stored, *kinds], caches), Health(), metrics)


async def _make_live(
    config: Config, stores: dict[str, Store], metrics: Registry, supervisor: Supervisor, stack: contextlib.AsyncExitStack
) -> _Live:
    kubelets = Kubelets(resources.lookup_in(stores), config.kubelet)
    kubelets.context()  # a file that cannot be used is better known now than at the first `kubectl logs`
    stack.push_async_callback(kubelets.close)
    roles = RoleIndex(stores)
    supervisor.keep("rbac", roles.follow)
    others = await remote(config.identity, metrics, stack)
    lookup = resources.lookup_in(stores)
    authorizers = Authorizers(config.identity, Sources(roles, resources.pods_on_node(stores), lookup), others.authorizer, metrics)
    stack.push_async_callback(authorizers.close)
    await authorizers.start()
    streams = connect.OpenStreams()
    aggregated = aggregation.made(config, stores, streams, metrics)
    stack.push_async_callback(aggregated.backends.close)
    aggregated.start(supervisor)
    webhooks = webhooks_in(stores, aggregated.resolver, stack)
    return _Live(OpenWatches(), roles, kubelets, streams, others, authorizers, dialler(stack), webhooks, aggregated)


async def _follow_files(
    config: Identity, believed: identity.Believed, live: _Live, metrics: Registry, server: Callable[[], str], tasks: Supervisor
) -> None:
    """Configuration files that count again when they change. ``server`` gives the name that metrics show hashed."""
    authorizers = live.authorizers
    files: dict[str, ConfigFile] = {}
    if config.authentication_file is not None:
        files["authentication-config"] = ConfigFile(config.authentication_file, lambda data: believed.reconfigure(config, data))
    if config.authorization_file is not None:
        files["authorization-config"] = ConfigFile(config.authorization_file, authorizers.reload)
        tasks.every("authorization-webhooks", 10 * LOOK_SECONDS, authorizers.tidy)
    if config.abac_policy is not None:
        files["abac-policies"] = ConfigFile(config.abac_policy, authorizers.reload_policies)
    for name, file in files.items():
        await file.start()
        if (what := name.removesuffix("-config")) != name:
            metrics.collectors.register(ReloadMetrics(what, file.reloads, server))
        tasks.every(name, LOOK_SECONDS, file.look)


async def _chain_parts(config: Config, base: _Base, wired: _Wired, stack: contextlib.AsyncExitStack) -> chain.Parts:
    sink, policy, audits = await auditing(config.audit, stack)
    requests, access = RequestMetrics(), AccessMetrics()
    base.metrics.collectors.register(requests)
    base.metrics.collectors.register(access)
    base.metrics.collectors.register(audits)
    base.metrics.collectors.register(StorageMetrics(base.caches.by_prefix, base.backend))
    proxy = config.identity.front_proxy
    user_headers = proxy.user_headers if proxy.client_ca is not None else ()
    timeout = config.serving.request_timeout
    constrained = config.features.enabled("ConstrainedImpersonation")
    return chain.Parts(
        wired.believed.authenticator,
        wired.authorizer,
        requests,
        wired.seats,
        sink,
        timeout,
        policy,
        user_headers,
        constrained,
        access,
        audits,
    )


async def _listen(
    config: Config,
    handler: Handler,
    bundles: Sequence[CaBundle],
    health: Health,
    live: _Live,
    supervisor: Supervisor,
    stack: contextlib.AsyncExitStack,
) -> Address:
    serving = config.serving
    authorities = (config.identity.client_ca, config.identity.front_proxy.client_ca)
    asked_for = tuple(path for path in authorities if path is not None)
    files = Files(serving.certificate, serving.key, asked_for, serving.named, serving.tls)
    tls = ServingCertificates(files)
    supervisor.start("tls-reload", watch(RealClock(), tls, *bundles))

    def drain() -> None:
        health.add("shutdown", _shutting_down, ("readyz",))
        live.watches.close_all()
        live.streams.close_all()

    where = (serving.bind_address, serving.port, tls.context)
    listener = listening(
        server_for(handler), *where, drain_seconds=serving.drain_seconds, on_drain=drain, reuse_port=serving.reuse_port
    )
    return await stack.enter_async_context(listener)


def _shutting_down() -> None:
    raise RuntimeError("the process is shutting down")


def _add_checks(health: Health, backends: Sequence[Backend], poststart: PostStart) -> None:
    async def storage_answers() -> None:
        async with asyncio.timeout(5):
            await asyncio.gather(*(backend.current_revision() for backend in backends))

    health.add("etcd", storage_answers)  # upstream's name for the check of whatever stores objects
    health.add("poststarthook/bootstrap-objects", poststart.check)
    health.add("informer-sync", poststart.check, ("readyz",))


def _wire(config: Config, base: _Base, live: _Live, supervisor: Supervisor, note: Note, server: Callable[[], str]) -> _Wired:
    schemas = schema.load()
    stores = base.stores
    lookup = resources.lookup_in(stores)
    note_use = resources.use_of_tokens(stores)
    cached = resources.cached_lookup_in(stores)
    believed = identity.believed(config.identity, cached, live.remote.tokens, note_use, server, config.features)
    base.metrics.collectors.register(believed.issuers.metrics)
    base.metrics.collectors.register(believed.uses)
    authorizer = live.authorizers.authorizer
    judges = Judges(believed.tokens, believed.service_accounts, authorizer, believed.audiences, schemas)
    streams = connect.endpoints(lookup, live.kubelets, authorize(authorizer, "create"), live.streams)
    components = ComponentStatuses(_probes(base.backend))
    metrics = AdmissionMetrics()
    base.metrics.collectors.register(metrics)
    kinds = Kinds(base.kinds, stores)
    policies = policies_of(kinds, stores, base.metrics.collectors, live.webhooks.metrics.conditions)
    base.metrics.collectors.register(live.webhooks.metrics)
    admission = chain_for(config.admission, config.features, stores, authorizer, live.dial, metrics, policies, live.webhooks)
    serves = (live.watches, streams, components, admission, config.features)
    table = resources.route_table(base.kinds, stores, lookup, schemas, believed, judges, *serves)
    post = live.webhooks.open(Users()).post
    around = Surroundings(
        schemas, admission, authorizer, config.features, live.watches, base.caches.add, base.caches.remove, post
    )
    definitions = stores[DEFINITIONS]
    custom = custom_resources.registration_for(definitions, base.caches, around, supervisor, alone=base.backend.exclusive)
    kinds.custom = custom
    custom_resources.register(custom, live.aggregation.registration)
    for computed in resource_metrics.made(config, stores, live.kubelets):
        table[computed.info.gvr] = routes_of(Scope(computed, schemas, admission, authorizer), live.watches)
    refresh = _gauges(base.metrics, live.watches)
    listed = listed_resources(base.kinds, resource_metrics.strategies(config))
    address = f"{advertised(config)}:{config.serving.port}"
    issuer = config.identity.service_account_issuers[0]
    volumes = {(kind.info.gvk.group, kind.info.plural): base.caches.of(kind).volume for kind in base.kinds}

    def stats(info: RequestInfo) -> tuple[int, int] | None:
        volume = volumes.get((info.api_group, info.resource))
        return volume() if volume is not None else None

    seats, dumps = seats_for(config.serving, stores, stats, base.metrics, supervisor, note)
    health, aggregated = base.health, live.aggregation
    documents = paths.Sources(listed, address, schemas, aggregated, custom)
    known = paths.paths_for(documents, health, base.metrics, refresh, believed, issuer, dumps)
    return _Wired(seats, Router(table, known, aggregated.proxy.endpoints, custom.routes), believed, authorizer)


def _probes(backend: Backend) -> dict[str, Probe]:
    async def storage_answers() -> str:
        await backend.current_revision()
        return "ok"

    return {"scheduler": healthz(10259), "controller-manager": healthz(10257), "etcd-0": storage_answers}


def _gauges(metrics: Registry, watches: OpenWatches) -> Callable[[], None]:
    """Counts that are looked up when somebody scrapes."""
    watching = metrics.gauge("apiserver_longrunning_requests", "Open watches by resource.", ("resource",))

    def refresh() -> None:
        watching.clear()
        for resource, count in watches.counts().items():
            watching.labels(resource).set(count)

    return refresh


def advertised(config: Config) -> str:
    """The address that clients in the cluster use: as told, or the bind address, or the one the default route leaves by."""
    serving = config.serving
    if serving.advertise_address:
        return serving.advertise_address
    if serving.bind_address not in ("0.0.0.0", "::", ""):  # noqa: S104
        return serving.bind_address
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # sends nothing: only asks the kernel which address would be used
        return str(probe.getsockname()[0])
    return "127.0.0.1"

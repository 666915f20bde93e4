"""What must exist in every cluster: four namespaces, the ``kubernetes`` Service and where it leads, the range of cluster IPs,
the system priorities, flow control, and an APIService for each version that is served.

Run by ``assembly.server`` once the listener is up; ``/readyz`` waits for it. What people may delete and the cluster cannot do
without is looked after from then on.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from apimachinery import errors
from apimachinery.gvk import GroupVersion
from apimachinery.meta import clone
from controlplane.apiserver.authentication.interface import SERVER
from controlplane.apiserver.authorization import bootstrap_policy
from controlplane.apiserver.authorization.reconcile import reconciled_binding, reconciled_role
from controlplane.apiserver.config import Config
from controlplane.apiserver.kinds.config import KindsConfig
from controlplane.apiserver.kinds.core.service.allocation import ServiceClaims
from controlplane.apiserver.kinds.core.service.repair import held, repair
from controlplane.apiserver.peers import Addresses, Identity, is_expired_identity, renewed
from controlplane.apiserver.poststart_requests import RequestObjects
from controlplane.apiserver.registry.store import Store
from controlplane.apiserver.registry.strategy import Context
from controlplane.apiserver.storage.interface import Backend, ListOptions, StorageUnavailableError

log = logging.getLogger(__name__)
Object = dict[str, Any]

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
PRIORITIES = {
    "system-node-critical": (2000001000, "Used for system critical pods that must not be moved from their current node."),
    "system-cluster-critical": (
        2000000000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
}
_LEASES = "leases.coordination.k8s.io"
_RETRY_SECONDS = 1.0
_REPAIR_SECONDS = 180.0  # between two looks at claims, as upstream
_LEAVE_SECONDS = 2.0
_RACE_CODES = (404, 409, 422)  # the last: the address of the kubernetes Service was claimed in between
_RACES = 5  # times to look again when another server was faster
_LABELS = {"component": "apiserver", "provider": "kubernetes"}

Mend = Callable[[Object, Object], Object | None]
"""From the stored and the wanted object to the one to store; None when nothing is to be done."""


async def _no_admission(obj: Object, old: Object | None) -> None:
    """The server's own objects need nobody's leave."""


class PostStart:
    def __init__(
        self, config: Config, stores: Mapping[str, Store], served: Collection[GroupVersion] = (), backend: Backend | None = None
    ) -> None:
        """``backend`` is where API servers learn of each other; without one this is the only one."""
        self._config, self._stores, self._backend = config, stores, backend
        self._addresses: Addresses | None = None
        self._identity: Identity | None = None
        self._leaving = False
        self._leading = asyncio.Lock()  # who leaves must not be written back by what was under way
        self._requests = RequestObjects(stores, served, lambda kind, obj, mended: self._ensure(kind, "", obj, mended=mended))
        self._done = False
        self._repaired = 0.0  # when claims were last compared with Services

    @property
    def name(self) -> str:
        """This server's identity; empty before it has an address."""
        return self._identity.name if self._identity is not None else ""

    def check(self) -> None:
        """For health checks: raises until everything exists."""
        if not self._done:
            raise RuntimeError("the cluster's own objects have not all been written yet")

    async def note_dangling(self) -> None:
        """FlowSchemas and priority levels have changed: their conditions follow, once the first of them have been written."""
        if self._done:
            await self._requests.note_dangling()

    async def prepare(self) -> None:
        """Before the listener is up: the system's namespaces, its roles and who has them."""
        await _persistently(self._prepare)

    async def _prepare(self) -> None:
        await self._namespaces()
        async with asyncio.TaskGroup() as tasks:  # together: the store commits them as a group

            def start(resource: str, obj: Object, mended: Mend) -> None:
                namespace = obj["metadata"].get("namespace", "")
                tasks.create_task(self._ensure(f"{resource}.{bootstrap_policy.GROUP}", namespace, obj, mended=mended))

            metrics = [bootstrap_policy.metrics_reader()] if self._config.resource_metrics else []
            for role in [*bootstrap_policy.roles(), *metrics]:
                start("clusterroles", role, reconciled_role)
            for binding in bootstrap_policy.bindings():
                start("clusterrolebindings", binding, reconciled_binding)
            for resource, obj in bootstrap_policy.namespaced():
                start(resource, obj, reconciled_role if resource == "roles" else reconciled_binding)
        await self._repair_claims()

    async def _repair_claims(self) -> None:
        """Before somebody makes a Service: no address is given away that one of another server's has."""
        if self._backend is None or (store := self._stores.get("services")) is None:
            return
        self._repaired = time.monotonic()
        claims = ServiceClaims(KindsConfig(self._config.service_ranges, self._config.node_ports))
        found = await held(self._backend)
        services = [entry.decode() for entry in (await store.list("", ListOptions())).entries]
        if changed := await repair(self._backend, claims, found, services, datetime.now(UTC)):
            log.info("%d claims of cluster IPs and node ports were not those of the Services", changed)

    async def run(self, address: str, port: int) -> None:
        if self._backend is not None:
            self._addresses = Addresses(self._backend, address)
            self._identity = Identity(address, port, self._config.serving.worker)
        await _persistently(lambda: self._bring_about_the_rest(address, port))
        self._done = True

    async def _bring_about_the_rest(self, address: str, port: int) -> None:
        for name, (value, text) in PRIORITIES.items():
            priority = _typed("scheduling.k8s.io/v1", "PriorityClass", {"name": name})
            priority |= {"value": value, "description": text, "preemptionPolicy": "PreemptLowerPriority"}
            await self._ensure("priorityclasses.scheduling.k8s.io", "", priority)
        await self._requests.bring_about()
        ranges = _typed("networking.k8s.io/v1", "ServiceCIDR", {"name": "kubernetes"})
        ranges["spec"] = {"cidrs": list(self._config.service_ranges)}
        await self._ensure("servicecidrs.networking.k8s.io", "", ranges)
        await self._publish_authorities()
        await self._way_in(address, port)
        await self._identify()

    async def mend(self, address: str, port: int) -> None:
        """Make again what somebody has deleted: upstream's controllers of system namespaces, the kubernetes Service..."""
        await self._namespaces()
        await self._way_in(address, port)
        await self._identify()
        await self._requests.mend()
        if self._backend is not None and not self._backend.exclusive and time.monotonic() > self._repaired + _REPAIR_SECONDS:
            await self._repair_claims()

    async def leave(self, port: int) -> None:
        """Before the listener closes: clients that look the ``kubernetes`` Service up are sent to the other servers."""
        self._leaving = True
        if self._addresses is not None and self._config.serving.endpoint_reconciler == "lease":
            with contextlib.suppress(errors.StatusError, StorageUnavailableError, TimeoutError):
                async with asyncio.timeout(_LEAVE_SECONDS), self._leading:
                    if others := await self._addresses.leave():
                        await self._lead_to(others, port)

    async def _namespaces(self) -> None:
        for name in NAMESPACES:
            await self._ensure("namespaces", "", _typed("v1", "Namespace", {"name": name}))

    async def _way_in(self, address: str, port: int) -> None:
        await self._ensure("services", "default", kubernetes_service(self._config.service_ranges[0], port))
        async with self._leading:
            if self._config.serving.endpoint_reconciler == "lease" and not self._leaving:
                await self._lead_to(await self._addresses.renew() if self._addresses is not None else [address], port)

    async def _lead_to(self, addresses: Sequence[str], port: int) -> None:
        await self._ensure("endpoints", "default", kubernetes_endpoints(addresses, port), ("subsets",))
        slice_ = kubernetes_slice(addresses, port)
        await self._ensure("endpointslices.discovery.k8s.io", "default", slice_, ("endpoints", "ports"))

    async def _identify(self) -> None:
        """Keep this server's Lease, and remove those of servers that have been gone for long."""
        store = self._stores.get(_LEASES)
        if self._identity is None or store is None:
            return
        now = datetime.now(UTC)
        await self._ensure(_LEASES, "kube-system", self._identity.lease(now), mended=renewed)
        for entry in (await store.list("kube-system", ListOptions(resource_version="0"))).entries:
            lease = entry.decode()
            if is_expired_identity(lease, now):
                ctx = Context(SERVER, "kube-system", lease["metadata"]["name"], "delete", now)
                with contextlib.suppress(errors.StatusError):  # another server was faster
                    await store.delete(ctx, {}, _no_admission)

    async def _publish_authorities(self) -> None:
        """Upstream's components and aggregated API servers learn from here whom to believe."""
        identity = self._config.identity
        data: dict[str, str] = {}
        if identity.client_ca is not None:
            data["client-ca-file"] = await asyncio.to_thread(identity.client_ca.read_text)
        proxy = identity.front_proxy
        if proxy.client_ca is not None:
            data["requestheader-client-ca-file"] = await asyncio.to_thread(proxy.client_ca.read_text)
            for name, values in (
                ("allowed-names", proxy.allowed_names),
                ("username-headers", proxy.user_headers),
                ("group-headers", proxy.group_headers),
                ("extra-headers-prefix", proxy.extra_prefixes),
                *([("uid-headers", proxy.uid_headers)] if proxy.uid_headers else []),
            ):
                data[f"requestheader-{name}"] = orjson.dumps(values).decode()
        # since when the uses of old tokens are noted: kept, as the cleaner of unused ones counts from there
        tracking = {"name": "kube-apiserver-legacy-service-account-token-tracking", "namespace": "kube-system"}
        since = {"since": datetime.now(UTC).date().isoformat()}
        await self._ensure("configmaps", "kube-system", {**_typed("v1", "ConfigMap", tracking), "data": since})
        meta = {"name": "extension-apiserver-authentication", "namespace": "kube-system"}
        await self._ensure("configmaps", "kube-system", {**_typed("v1", "ConfigMap", meta), "data": data}, ("data",))

    async def _ensure(
        self, resource: str, namespace: str, wanted: Object, kept_true: tuple[str, ...] = (), mended: Mend | None = None
    ) -> None:
        """Create it; if it exists, bring the members in ``kept_true`` to what they must be, or it to what ``mended`` says.

        Other API servers do the same at the same moment, and people delete: what has changed in between is looked at again.
        """
        store = self._stores.get(resource)
        if store is None:
            return
        name = wanted["metadata"]["name"]
        ctx = Context(SERVER, namespace, name, "create", datetime.now(UTC), field_manager="kube-apiserver")
        store.strategy.default(wanted)
        for left in reversed(range(_RACES)):
            try:
                await self._bring_about(store, ctx, wanted, kept_true, mended)
                return
            except errors.StatusError as problem:
                if problem.code not in _RACE_CODES or not left:
                    raise

    async def _bring_about(
        self, store: Store, ctx: Context, wanted: Object, kept_true: tuple[str, ...], mended: Mend | None
    ) -> None:
        try:
            stored = (await store.get(ctx.namespace, ctx.name)).decode()
        except errors.StatusError as problem:
            if problem.code != 404:
                raise
            await store.create(ctx, clone(wanted), _no_admission)
            return
        if mended is None and all(stored.get(member) == wanted.get(member) for member in kept_true):
            return

        async def mend(old: Object) -> Object | None:
            if mended is not None:
                return mended(old, wanted)
            return {**old, **{member: wanted[member] for member in kept_true}}

        await store.update(ctx, mend, _no_admission)


async def _persistently(work: Callable[[], Awaitable[None]]) -> None:
    """Until it succeeds, as long as all that is wrong is that the store has no leader just now."""
    while True:
        try:
            await work()
            return
        except* errors.StatusError as problems:
            if any(problem.code < 500 for problem in _leaves(problems)):
                raise
            log.warning("the cluster's own objects cannot be written yet: %s", next(_leaves(problems)))
            await asyncio.sleep(_RETRY_SECONDS)
        except* StorageUnavailableError as problems:
            log.warning("the cluster's own objects cannot be written yet: %s", problems.exceptions[0])
            await asyncio.sleep(_RETRY_SECONDS)


def _leaves(group: BaseExceptionGroup[errors.StatusError]) -> Iterator[errors.StatusError]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each


def _typed(api_version: str, kind: str, metadata: Object) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def first_address(service_range: str) -> str:
    """The cluster IP of the ``kubernetes`` Service; also a name in the server's certificate."""
    import ipaddress

    network = ipaddress.ip_network(service_range)
    return str(network.network_address + 1)


def kubernetes_service(service_range: str, port: int) -> Object:
    address = first_address(service_range)
    service = _typed("v1", "Service", {"name": "kubernetes", "namespace": "default", "labels": dict(_LABELS)})
    service["spec"] = {
        "clusterIP": address,
        "clusterIPs": [address],
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
    }
    return service


def kubernetes_endpoints(addresses: Sequence[str], port: int) -> Object:
    labels = {"endpointslice.kubernetes.io/skip-mirror": "true"}
    endpoints = _typed("v1", "Endpoints", {"name": "kubernetes", "namespace": "default", "labels": labels})
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    endpoints["subsets"] = [{"addresses": [{"ip": address} for address in addresses], "ports": ports}]
    return endpoints


def kubernetes_slice(addresses: Sequence[str], port: int) -> Object:
    labels = {"kubernetes.io/service-name": "kubernetes"}
    made = _typed("discovery.k8s.io/v1", "EndpointSlice", {"name": "kubernetes", "namespace": "default", "labels": labels})
    made["addressType"] = "IPv6" if ":" in addresses[0] else "IPv4"
    made["endpoints"] = [{"addresses": [address], "conditions": {"ready": True}} for address in addresses]
    made["ports"] = [{"name": "https", "port": port, "protocol": "TCP"}]
    return made

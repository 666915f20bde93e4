"""Stores, scopes and routes for every kind, and the look-ups that admission and authentication need."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionResource
from apimachinery.schema import Schemas
from component.featuregates import Gates
from controlplane.apiserver.admission.chain import AdmissionChain
from controlplane.apiserver.admission.interface import Listing, Lookup, MakeNamespace, StatusWrite
from controlplane.apiserver.assembly.identity import Believed
from controlplane.apiserver.assembly.storage import Caches
from controlplane.apiserver.authentication.interface import SERVER
from controlplane.apiserver.authentication.legacy_token import LAST_USED, Note
from controlplane.apiserver.authorization.node import PodsOn
from controlplane.apiserver.endpoints import connect_admission
from controlplane.apiserver.endpoints.componentstatus import ComponentStatuses
from controlplane.apiserver.endpoints.evict import evict
from controlplane.apiserver.endpoints.forms import forms_of
from controlplane.apiserver.endpoints.reviews import REVIEWS, Judges, ReviewStrategy, review
from controlplane.apiserver.endpoints.scope import Scope
from controlplane.apiserver.endpoints.subresource import BINDINGS, write_by_body
from controlplane.apiserver.endpoints.token import create_token
from controlplane.apiserver.endpoints.watch import OpenWatches
from controlplane.apiserver.registry.store import CACHED, Store
from controlplane.apiserver.registry.strategy import Context, ResourceInfo, Strategy
from controlplane.apiserver.registry.update import STATUS
from controlplane.apiserver.routing import Endpoint, Routes, routes_of
from controlplane.apiserver.storage.interface import ListOptions

Object = dict[str, Any]
RouteTable = dict[GroupVersionResource, Routes]
Connect = Mapping[tuple[str, str], Mapping[tuple[str, str], Endpoint]]
"""Endpoints of streams: ``{("", "pods"): {("log", "get"): endpoint}}``; made by ``endpoints.connect``."""


def stores_for(strategies: Sequence[Strategy], caches: Caches) -> dict[str, Store]:
    """By ``resource.group``, the first version of each: let that be the stored one."""
    stores: dict[str, Store] = {}
    for strategy in strategies:
        stores.setdefault(strategy.info.gvr.group_resource, Store(strategy, caches.of(strategy)))
    return stores


def lookup_in(stores: Mapping[str, Store]) -> Lookup:
    """Reads single objects as they are now, for answers to requests."""

    async def lookup(resource: str, namespace: str, name: str) -> Object | None:
        store = stores.get(resource)
        if store is None or not name:
            return None
        try:
            return (await store.objects.get(store.key(namespace, name))).decode()
        except KeyError:
            return None

    return lookup


def cached_lookup_in(stores: Mapping[str, Store]) -> Lookup:
    """Reads single objects for admission and authentication: what the cache holds, and only what it lacks as of now.

    So do upstream's informers with a live look-up behind them. What this server has acknowledged is in its caches; what another
    server over the same etcd has changed may be some milliseconds old, which spares each request a question to etcd.
    """
    latest = lookup_in(stores)

    async def lookup(resource: str, namespace: str, name: str) -> Object | None:
        store = stores.get(resource)
        if store is None or not name:
            return None
        try:
            return (await store.objects.get(store.key(namespace, name), CACHED)).decode()
        except KeyError:
            return await latest(resource, namespace, name)

    return lookup


def cached_listing_in(stores: Mapping[str, Store]) -> Listing:
    """Reads all objects of a namespace, for admission: what the cache holds, as upstream's informers."""

    async def listing(resource: str, namespace: str) -> list[Object]:
        store = stores.get(resource)
        if store is None:
            return []
        found = await store.list(namespace, ListOptions(resource_version=CACHED))
        return [entry.decode() for entry in found.entries]

    return listing


def status_writer(stores: Mapping[str, Store]) -> StatusWrite:
    """How admission writes the status of what it keeps account in: as the server itself, with no admission of its own."""

    async def no_admission(obj: Object, old: Object | None) -> None:
        """The server's own bookkeeping needs nobody's leave."""

    async def write(resource: str, namespace: str, name: str, change: Callable[[Object], Awaitable[Object | None]]) -> None:
        ctx = Context(SERVER, namespace, name, "update", datetime.now(UTC), "status", field_manager="kube-apiserver")
        await stores[resource].update(ctx, change, no_admission, STATUS)

    return write


def namespace_maker(stores: Mapping[str, Store]) -> MakeNamespace:
    """For admission that makes the namespaces it misses."""

    async def no_admission(obj: Object, old: Object | None) -> None:
        """What the server makes on its own account needs nobody's leave."""

    async def make(name: str) -> None:
        store = stores["namespaces"]
        ctx = Context(SERVER, "", name, "create", datetime.now(UTC), field_manager="kube-apiserver")
        wanted: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        store.strategy.default(wanted)
        try:
            await store.create(ctx, wanted, no_admission)
        except StatusError as error:
            if error.code != 409:
                raise

    return make


def use_of_tokens(stores: Mapping[str, Store]) -> Note:
    """Notes the day of a legacy token's last use on its Secret."""

    async def no_admission(obj: Object, old: Object | None) -> None:
        """The server's own bookkeeping needs nobody's leave."""

    async def note(namespace: str, name: str, day: str) -> None:
        async def change(secret: Object) -> Object | None:
            labels = {**(secret["metadata"].get("labels") or {}), LAST_USED: day}
            return {**secret, "metadata": {**secret["metadata"], "labels": labels}}

        ctx = Context(SERVER, namespace, name, "update", datetime.now(UTC), field_manager="kube-apiserver")
        await stores["secrets"].update(ctx, change, no_admission)

    return note


def pods_on_node(stores: Mapping[str, Store]) -> PodsOn:
    """The pods bound to a node, by the cache's index."""

    async def pods_on(node: str) -> list[Object]:
        wanted = (("spec.nodeName", node),)
        options = ListOptions(matches=lambda traits: traits.fields.get("spec.nodeName") == node, field_equals=wanted)
        found = await stores["pods"].list("", options)
        return [entry.decode() for entry in found.entries]

    return pods_on


def route_table(
    strategies: Sequence[Strategy],
    stores: Mapping[str, Store],
    lookup: Lookup,
    schemas: Schemas,
    believed: Believed,
    judges: Judges,
    open_watches: OpenWatches,
    connect: Connect,
    components: ComponentStatuses,
    admission: AdmissionChain,
    features: Gates,
) -> RouteTable:
    table: RouteTable = {}
    for strategy in strategies:
        info = strategy.info
        found = stores[info.gvr.group_resource]
        store = found if found.strategy is strategy else Store(strategy, found.objects)
        kept = (strategy.stored_as or info).gvr
        siblings = tuple(one for one in strategies if one is not strategy and (one.stored_as or one.info).gvr == kept)
        scope = Scope(store, schemas, admission, judges.authorizer, siblings, features)
        extra = connect_admission.admitted(scope, connect.get((info.gvk.group, info.plural), {}))
        extra.update(_special(scope, stores, lookup, believed))
        table[info.gvr] = routes_of(scope, open_watches, extra)
        if info.gvr.group_resource == "pods":
            table.update(_bindings(scope))
    parts = Scope(components, schemas, admission, judges.authorizer)
    table[parts.info.gvr] = routes_of(parts, open_watches)
    for info in REVIEWS:
        table[info.gvr] = Routes(info, {("", "create"): _review(info, judges, admission, schemas)})
    return table


def _bindings(scope: Scope) -> RouteTable:
    binding = next((one for one in scope.strategy.subresources if one.name == "binding"), None)
    if binding is None:
        return {}
    return {BINDINGS.gvr: Routes(BINDINGS, {("", "create"): lambda call: write_by_body(call, scope, binding)})}


def _review(info: ResourceInfo, judges: Judges, admission: AdmissionChain, schemas: Schemas) -> Endpoint:
    forms = forms_of(ReviewStrategy(info), (), "", info.gvk, schemas)
    return lambda call: review(call, info, judges, admission, forms)


def _special(scope: Scope, stores: Mapping[str, Store], lookup: Lookup, believed: Believed) -> dict[tuple[str, str], Endpoint]:
    info = scope.info
    if info.gvr.group_resource == "pods":
        budgets = Scope(stores["poddisruptionbudgets.policy"], scope.schemas, scope.admission, scope.authorizer)
        return {("eviction", "create"): lambda call: evict(call, scope, budgets)}
    if info.gvr.group_resource == "serviceaccounts" and believed.issuer is not None:
        issuer, audiences = believed.issuer, believed.audiences
        return {("token", "create"): lambda call: create_token(call, scope, issuer, audiences, lookup)}
    return {}

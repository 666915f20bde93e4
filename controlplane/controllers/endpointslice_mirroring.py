"""endpointslice_mirroring: copies Endpoints that somebody wrote by hand into EndpointSlices, which is all that proxies read.

Only for Services without a selector: the others have slices of their own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.meta import (
    Object,
    annotations_of,
    clone,
    is_deleting,
    labels_of,
    make_key,
    name_of,
    namespace_of,
    owner_reference,
    split_key,
)
from apimachinery.objects import services
from apimachinery.resources import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from controlplane.controllers.controller import Environment, Loop
from controlplane.controllers.lib.freshness import PAUSE_SECONDS, Written
from controlplane.controllers.lib.pod_control import is_namespace_terminating
from controlplane.controllers.lib.slices import MANAGED_BY_LABEL, SERVICE_LABEL, service_index

MANAGER = "endpointslicemirroring-controller.k8s.io"
SKIP_LABEL = "endpointslice.kubernetes.io/skip-mirror"
_LEADER_ANNOTATION = "control-plane.alpha.kubernetes.io/leader"
_NOT_COPIED = frozenset({"endpoints.kubernetes.io/managed-by", MANAGED_BY_LABEL, SERVICE_LABEL})
MAX_ADDRESSES = 1000
BY_SERVICE = "service"


def is_mirrored(endpoints: Mapping[str, Any]) -> bool:
    """Old leader-election locks are Endpoints, too, and change every two seconds."""
    return labels_of(endpoints).get(SKIP_LABEL) != "true" and _LEADER_ANNOTATION not in annotations_of(endpoints)


def wanted_slices(endpoints: Object) -> list[Object]:
    """A slice for each subset and address family."""
    made = []
    for subset in endpoints.get("subsets") or ():
        ports = [{"name": "", "protocol": "TCP", **port} for port in subset.get("ports") or ()]
        ready = [(address, True) for address in subset.get("addresses") or ()]
        waiting = [(address, False) for address in subset.get("notReadyAddresses") or ()]
        for family in ("IPv4", "IPv6"):
            found = [_endpoint(each, ok) for each, ok in [*ready, *waiting] if (":" in each["ip"]) == (family == "IPv6")]
            if found:
                made.append(_slice(endpoints, family, ports, found[:MAX_ADDRESSES]))
    return made


def _endpoint(address: Mapping[str, Any], ready: bool) -> Object:
    made: Object = {"addresses": [address["ip"]], "conditions": {"ready": ready}}
    for field_name in ("hostname", "nodeName", "targetRef"):
        if address.get(field_name):
            made[field_name] = address[field_name]
    return made


def _slice(endpoints: Object, family: str, ports: list[Object], found: list[Object]) -> Object:
    labels = {key: text for key, text in labels_of(endpoints).items() if key not in _NOT_COPIED}
    labels.update({SERVICE_LABEL: name_of(endpoints), MANAGED_BY_LABEL: MANAGER})
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": f"{name_of(endpoints)}-",
            "namespace": namespace_of(endpoints),
            "labels": labels,
            "ownerReferences": [owner_reference(endpoints, "v1", "Endpoints")],
        },
        "addressType": family,
        "endpoints": found,
        "ports": ports,
    }


@dataclass(slots=True)
class Changes:
    create: list[Object] = field(default_factory=list)
    update: list[Object] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)


def plan(wanted: Iterable[Object], held: Iterable[Object]) -> Changes:
    """Reuse slices of the same family, those with the same ports first."""
    changes, free = Changes(), list(held)
    for each in wanted:
        fitting = [old for old in free if old.get("addressType") == each["addressType"]]
        old = next((old for old in fitting if old.get("ports") == each["ports"]), fitting[0] if fitting else None)
        if old is None:
            changes.create.append(each)
            continue
        free.remove(old)
        fresh = clone(old)
        fresh.update(endpoints=each["endpoints"], ports=each["ports"])
        fresh["metadata"]["labels"] = each["metadata"]["labels"]
        if fresh != old:
            changes.update.append(fresh)
    changes.delete = free
    return changes


class EndpointSliceMirroringController:
    """One loop over Endpoints."""

    name = "endpointslice-mirroring-controller"

    def __init__(self, env: Environment, workers: int = 5) -> None:
        self._client = env.client
        self._endpoints = env.watch(ENDPOINTS)
        self._services = env.watch(SERVICES)
        self._slices = env.watch(ENDPOINT_SLICES)
        self._slices.add_index(BY_SERVICE, service_index)
        self._written = Written(self._slices.lister, env.clock)
        self._loop = Loop(self.name, self.reconcile, env, workers)
        add = self._loop.add_object
        self._endpoints.add_handler(on_add=add, on_update=lambda old, new: add(new), on_delete=add)
        self._services.add_handler(on_add=add, on_update=self._service_updated, on_delete=add)
        self._slices.add_handler(on_update=lambda old, new: self._slice_changed(new), on_delete=self._slice_deleted)

    async def run(self) -> None:
        await self._loop.run()

    def _service_updated(self, old: Object, new: Object) -> None:
        if bool(services.selector(old)) != bool(services.selector(new)):
            self._loop.add_object(new)

    def _slice_changed(self, each: Object) -> None:
        if labels_of(each).get(MANAGED_BY_LABEL) == MANAGER:
            for key in service_index(each):
                self._loop.add(key)

    def _slice_deleted(self, each: Object) -> None:
        for key in service_index(each):
            self._written.forget(key, each)
        self._slice_changed(each)

    async def reconcile(self, key: str) -> float | None:
        namespace, name = split_key(key)
        endpoints, service = self._endpoints.lister.get(name, namespace), self._services.lister.get(name, namespace)
        if not self._written.seen(key):
            return PAUSE_SECONDS
        held = [
            each
            for each in self._slices.lister.by_index(BY_SERVICE, make_key(namespace, name))
            if labels_of(each).get(MANAGED_BY_LABEL) == MANAGER and not is_deleting(each)
        ]
        wanted: list[Object] = []
        if endpoints is not None and service is not None and not services.selector(service) and is_mirrored(endpoints):
            wanted = wanted_slices(endpoints)
        await self._perform(key, plan(wanted, held))
        return None

    async def _perform(self, key: str, changes: Changes) -> None:
        try:
            for each in changes.create:
                self._written.note(key, await self._client.create(ENDPOINT_SLICES, each))
            for each in changes.update:
                self._written.note(key, await self._client.update(ENDPOINT_SLICES, each))
            for each in changes.delete:
                await self._client.delete(ENDPOINT_SLICES, name_of(each), namespace_of(each))
        except StatusError as error:
            if not is_namespace_terminating(error):
                raise

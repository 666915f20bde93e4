"""endpoints: the older object beside EndpointSlices, which some clients still read."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.meta import Object, clone, is_deleting, labels_of, name_of, namespace_of, split_key
from apimachinery.objects import pods, services
from apimachinery.resources import ENDPOINTS, PODS, SERVICES
from controlplane.controllers.controller import Environment, Loop
from controlplane.controllers.lib.endpoint_pods import (
    HEADLESS_LABEL,
    LAST_CHANGE,
    Port,
    address_of,
    address_order,
    is_candidate,
    matters,
    ready_changed,
    resolve_ports,
    stable_hostname,
    target_ref,
    trigger_time,
)
from controlplane.controllers.lib.pod_control import is_namespace_terminating
from controlplane.controllers.lib.service_pods import ServicePods

MANAGED_BY_LABEL = "endpoints.kubernetes.io/managed-by"
MANAGER = "endpoint-controller"
OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
MAX_ADDRESSES = 1000


def subsets(service: Object, chosen: Iterable[Object]) -> list[Object]:
    """Addresses grouped by their ports, ready ones apart from the others; sorted, so that equal input gives equal output."""
    family = services.ip_families(service)[0]
    publish = services.publishes_not_ready(service)
    groups: dict[tuple[Port, ...], tuple[list[Object], list[Object]]] = {}
    for pod in chosen:
        address = address_of(pod, family)
        if address is None or not is_candidate(pod, include_terminating=publish):
            continue
        ports = resolve_ports(service, pod)
        if not ports and not services.is_headless(service):
            continue
        ready, waiting = groups.setdefault(ports, ([], []))
        (ready if publish or pods.is_ready(pod) else waiting).append(_address(service, pod, address))
    made = [_subset(ports, *addresses) for ports, addresses in groups.items()]
    return sorted(made, key=lambda each: [(port.get("name", ""), port["port"]) for port in each.get("ports") or ()])


def _address(service: Object, pod: Object, address: str) -> Object:
    entry: Object = {"ip": address, "targetRef": target_ref(pod)}
    hostname = stable_hostname(pod, service)
    if hostname:
        entry["hostname"] = hostname
    if pods.node_name(pod):
        entry["nodeName"] = pods.node_name(pod)
    return entry


def _subset(ports: tuple[Port, ...], ready: list[Object], waiting: list[Object]) -> Object:
    made: Object = {}
    for field, listed in (("addresses", ready), ("notReadyAddresses", waiting)):
        if listed:
            made[field] = sorted(listed, key=lambda each: address_order(each["ip"]))
    made["ports"] = [{key: text for key, text in port.as_dict().items() if text != ""} for port in ports]
    if not made["ports"]:
        del made["ports"]
    return made


def truncate(listed: list[Object]) -> bool:
    """Keep at most 1000 addresses, ready ones first. Returns whether some were cut."""
    room, cut = MAX_ADDRESSES, False
    for field in ("addresses", "notReadyAddresses"):
        for subset in listed:
            held = subset.get(field) or []
            if len(held) > room:
                subset[field], cut = held[:room], True
                if not subset[field]:
                    del subset[field]
            room -= min(room, len(held))
    return cut


def desired(service: Object, chosen: list[Object], held: Mapping[str, Any] | None) -> Object:
    """The Endpoints object to write; everything but its metadata version is decided here."""
    made: Object = clone(dict(held)) if held is not None else {"apiVersion": "v1", "kind": "Endpoints", "metadata": {}}
    made["metadata"].update(name=name_of(service), namespace=namespace_of(service))
    made["subsets"] = subsets(service, chosen)
    over = truncate(made["subsets"])
    labels = {key: text for key, text in labels_of(service).items() if key != HEADLESS_LABEL}
    labels[MANAGED_BY_LABEL] = MANAGER
    if services.is_headless(service):
        labels[HEADLESS_LABEL] = ""
    made["metadata"]["labels"] = labels
    annotations = {key: text for key, text in (made["metadata"].get("annotations") or {}).items() if key != OVER_CAPACITY}
    if over:
        annotations[OVER_CAPACITY] = "truncated"
    made["metadata"]["annotations"] = annotations
    return made


def same(held: Mapping[str, Any], made: Mapping[str, Any]) -> bool:
    def compared(obj: Mapping[str, Any]) -> Any:
        annotations = {key: text for key, text in (obj["metadata"].get("annotations") or {}).items() if key != LAST_CHANGE}
        return obj.get("subsets") or [], obj["metadata"].get("labels") or {}, annotations

    return bool(compared(held) == compared(made))


class EndpointsController:
    """One loop over Services."""

    name = "endpoint-controller"

    def __init__(self, env: Environment, workers: int = 5) -> None:
        self._client = env.client
        self._recorder = env.recorders(self.name)
        self._services = env.watch(SERVICES)
        self._endpoints = env.watch(ENDPOINTS)
        all_pods = env.watch(PODS)
        self._selected = ServicePods(self._services.lister, all_pods.lister)
        self._loop = Loop(self.name, self.reconcile, env, workers)
        add = self._loop.add_object
        self._services.add_handler(on_add=add, on_update=lambda old, new: add(new), on_delete=add)
        all_pods.add_handler(on_add=self._pod_changed, on_update=self._pod_updated, on_delete=self._pod_changed)
        self._endpoints.add_handler(on_add=self._endpoints_added, on_delete=add)

    async def run(self) -> None:
        await self._loop.run()

    def _endpoints_added(self, obj: Object) -> None:
        """After a restart: Endpoints whose Service went while nobody looked."""
        if labels_of(obj).get(MANAGED_BY_LABEL) == MANAGER:
            self._loop.add_object(obj)

    def _pod_changed(self, pod: Object) -> None:
        for service in self._selected.services_of(pod):
            self._loop.add_object(service)

    def _pod_updated(self, old: Object, new: Object) -> None:
        if labels_of(old) != labels_of(new):
            self._pod_changed(old)
            self._pod_changed(new)
        elif matters(old, new):
            self._pod_changed(new)

    async def reconcile(self, key: str) -> float | None:
        namespace, name = split_key(key)
        service = self._services.lister.get(name, namespace)
        held = self._endpoints.lister.get(name, namespace)
        if service is None:
            if held is not None and labels_of(held).get(MANAGED_BY_LABEL) == MANAGER:
                await self._delete(held)
            return None
        if is_deleting(service) or services.is_external_name(service) or not services.selector(service):
            return None
        chosen = self._selected.pods_of(service)
        made = desired(service, chosen, held)
        if held is None or not same(held, made):
            await self._write(service, made, held, [moment for pod in chosen if (moment := ready_changed(pod)) is not None])
        return None

    async def _write(self, service: Object, made: Object, held: Mapping[str, Any] | None, moments: list[datetime]) -> None:
        stamp = trigger_time(moments, held)
        if stamp is not None:
            made["metadata"]["annotations"][LAST_CHANGE] = stamp
        else:
            made["metadata"]["annotations"].pop(LAST_CHANGE, None)
        try:
            await (self._client.create(ENDPOINTS, made) if held is None else self._client.update(ENDPOINTS, made))
        except StatusError as error:
            if is_namespace_terminating(error):
                return
            if error.code not in (404, 409):
                verb = "create" if held is None else "update"
                text = f"Failed to {verb} endpoint {namespace_of(service)}/{name_of(service)}: {error.message}"
                self._recorder.event(service, "Warning", f"FailedTo{verb.title()}Endpoint", text, verb.title())
            raise

    async def _delete(self, held: Object) -> None:
        try:
            await self._client.delete(ENDPOINTS, name_of(held), namespace_of(held))
        except StatusError as error:
            if error.code != 404:
                raise

"""How endpoints are laid out in EndpointSlices: a pure plan from what should be and what is to creates, updates, deletes.

The plan touches as few slices as it can: every written slice goes to every node. Existing slices keep their endpoints;
what is left over goes into slices that change anyway, then into the fullest one with room, then into new ones.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from apimachinery.meta import Object, clone, is_deleting, labels_of, make_key, name_of, namespace_of, owner_reference
from apimachinery.objects import nodes, pods, services
from controlplane.controllers.lib.endpoint_pods import (
    HEADLESS_LABEL,
    LAST_CHANGE,
    Port,
    address_of,
    is_candidate,
    ready_changed,
    resolve_ports,
    stable_hostname,
    target_ref,
    trigger_time,
)

SERVICE_LABEL = "kubernetes.io/service-name"
MANAGED_BY_LABEL = "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpointslice-controller.k8s.io"
MAX_ENDPOINTS = 100

_RESERVED_LABELS = frozenset({SERVICE_LABEL, MANAGED_BY_LABEL, HEADLESS_LABEL})


def service_index(each: Object) -> list[str]:
    """``namespace/name`` of the Service whose slice this is."""
    name = labels_of(each).get(SERVICE_LABEL)
    return [make_key(namespace_of(each), name)] if name else []


@dataclass(slots=True)
class Changes:
    """What to write, in this order."""

    create: list[Object] = field(default_factory=list)
    update: list[Object] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)


@dataclass(slots=True)
class _Wanted:
    """Endpoints by identity, and when each pod's readiness changed."""

    endpoints: dict[str, Object] = field(default_factory=dict)
    moments: dict[str, datetime] = field(default_factory=dict)


def plan(
    service: Object,
    chosen: Iterable[Object],
    held: Iterable[Object],
    find_node: Mapping[str, Object],
    limit: int = MAX_ENDPOINTS,
) -> Changes:
    """``chosen`` are the pods the selector matches, ``held`` the slices this controller manages for the Service."""
    changes = Changes()
    chosen = list(chosen)
    families = services.ip_families(service)
    remaining = []
    for each in held:
        if each.get("addressType") in families:
            remaining.append(each)
        else:
            changes.delete.append(each)
    for family in families:
        of_family = [each for each in remaining if each.get("addressType") == family]
        _plan_family(service, family, _group_by_ports(service, family, chosen, find_node), of_family, limit, changes)
    return changes


def endpoint_for(service: Object, pod: Object, address: str, find_node: Mapping[str, Object]) -> Object:
    """One endpoint; ``ready`` is what proxies route by, ``serving`` and ``terminating`` what they fall back on."""
    is_ready, terminating = pods.is_ready(pod), is_deleting(pod)
    ready = services.publishes_not_ready(service) or (is_ready and not terminating)
    endpoint: Object = {
        "addresses": [address],
        "conditions": {"ready": ready, "serving": is_ready, "terminating": terminating},
        "targetRef": target_ref(pod),
    }
    if services.publishes_not_ready(service):
        endpoint["conditions"]["serving"] = True
    hostname = stable_hostname(pod, service)
    if hostname:
        endpoint["hostname"] = hostname
    if pods.node_name(pod):
        endpoint["nodeName"] = pods.node_name(pod)
        node = find_node.get(pods.node_name(pod))
        if node is not None and nodes.zone(node):
            endpoint["zone"] = nodes.zone(node)
    return endpoint


def _group_by_ports(
    service: Object, family: str, chosen: Iterable[Object], find_node: Mapping[str, Object]
) -> dict[tuple[Port, ...], _Wanted]:
    """A slice has one list of ports, so pods that resolve a named port differently need slices of their own."""
    groups: dict[tuple[Port, ...], _Wanted] = {}
    for pod in chosen:
        if not is_candidate(pod, include_terminating=True):
            continue
        address = address_of(pod, family)
        if address is None:
            continue
        wanted = groups.setdefault(resolve_ports(service, pod), _Wanted())
        endpoint = endpoint_for(service, pod, address, find_node)
        identity = _identity(endpoint)
        wanted.endpoints[identity] = endpoint
        moment = ready_changed(pod)
        if moment is not None:
            wanted.moments[identity] = moment
    return groups


def _identity(endpoint: Mapping[str, Any]) -> str:
    """A pod with another address is another endpoint."""
    return f"{(endpoint.get('targetRef') or {}).get('uid', '')}/{','.join(endpoint.get('addresses') or ())}"


def _plan_family(
    service: Object,
    family: str,
    groups: dict[tuple[Port, ...], _Wanted],
    held: list[Object],
    limit: int,
    changes: Changes,
) -> None:
    by_ports: dict[tuple[Port, ...], list[Object]] = {}
    for each in held:
        by_ports.setdefault(_ports_of(each), []).append(each)
    emptied: list[Object] = []
    for ports, existing in by_ports.items():
        if ports not in groups:
            emptied += existing
    for ports, wanted in groups.items():
        emptied = _plan_group(service, family, ports, wanted, by_ports.get(ports, []), emptied, limit, changes)
    if not groups:
        emptied = _keep_placeholder(service, family, emptied, changes)
    changes.delete += emptied


def _ports_of(held: Mapping[str, Any]) -> tuple[Port, ...]:
    return tuple(
        Port(each.get("name") or "", each.get("protocol") or "TCP", each.get("port"), each.get("appProtocol"))
        for each in held.get("ports") or ()
    )


def _plan_group(
    service: Object,
    family: str,
    ports: tuple[Port, ...],
    wanted: _Wanted,
    existing: list[Object],
    spare: list[Object],
    limit: int,
    changes: Changes,
) -> list[Object]:
    """Plan one list of ports. ``spare`` are empty slices that may be used; returns those that are empty in the end."""
    missing = dict(wanted.endpoints)
    kept: list[tuple[Object, list[Object], list[str]]] = []
    emptied = list(spare)
    for each in existing:
        endpoints, changed = _retain(each, wanted, missing)
        if endpoints:
            kept.append((each, endpoints, changed))
        else:
            emptied.append(each)
    if missing and emptied and not kept:  # reuse rather than replace
        kept.append((emptied.pop(0), [], []))
    _fill(kept, missing, limit)
    for each, endpoints, changed in kept:
        _update(service, ports, each, endpoints, [wanted.moments[i] for i in changed if i in wanted.moments], changes)
    queue = list(missing.items())
    while queue:
        part, queue = queue[:limit], queue[limit:]
        made = _new_slice(service, family, ports, [endpoint for _, endpoint in part])
        moments = [wanted.moments[identity] for identity, _ in part if identity in wanted.moments]
        _stamp(made, moments, None)
        changes.create.append(made)
    return emptied


def _retain(each: Object, wanted: _Wanted, missing: dict[str, Object]) -> tuple[list[Object], list[str]]:
    """The slice's endpoints that stay, refreshed, and which of them changed; takes them out of ``missing``."""
    endpoints, changed = [], []
    for endpoint in each.get("endpoints") or ():
        identity = _identity(endpoint)
        fresh = missing.pop(identity, None)
        if fresh is None:
            continue
        if endpoint.get("hints"):
            fresh = {**fresh, "hints": endpoint["hints"]}
        endpoints.append(fresh)
        if fresh != endpoint:
            changed.append(identity)
    return endpoints, changed


def _fill(kept: list[tuple[Object, list[Object], list[str]]], missing: dict[str, Object], limit: int) -> None:
    """Put missing endpoints into slices that change anyway, then, if all the rest fits into one, into the fullest such."""
    for each, endpoints, _changed in kept:
        if endpoints != (each.get("endpoints") or []):
            _pour(missing, endpoints, _changed, limit)
    if not missing:
        return
    fitting = [entry for entry in kept if len(entry[1]) + len(missing) % limit <= limit and len(entry[1]) < limit]
    if fitting and len(missing) % limit:
        _, endpoints, changed = max(fitting, key=lambda entry: len(entry[1]))
        _pour(missing, endpoints, changed, len(endpoints) + len(missing) % limit)


def _pour(missing: dict[str, Object], endpoints: list[Object], changed: list[str], limit: int) -> None:
    while missing and len(endpoints) < limit:
        identity = next(iter(missing))
        endpoints.append(missing.pop(identity))
        changed.append(identity)


def _update(
    service: Object, ports: tuple[Port, ...], each: Object, endpoints: list[Object], moments: list[datetime], changes: Changes
) -> None:
    """Rewrite the slice if its endpoints, labels or owner differ."""
    fresh = clone(each)
    fresh["endpoints"] = endpoints
    fresh["ports"] = [port.as_dict() for port in ports]
    fresh["metadata"]["labels"] = slice_labels(service)
    fresh["metadata"]["ownerReferences"] = [owner_reference(service, "v1", "Service")]
    if _compared(fresh) != _compared(each):
        _stamp(fresh, moments, each)
        changes.update.append(fresh)


def _compared(each: Mapping[str, Any]) -> Any:
    metadata = each["metadata"]
    return (each.get("endpoints") or [], each.get("ports") or [], metadata.get("labels"), metadata.get("ownerReferences"))


def _stamp(obj: Object, moments: list[datetime], held: Object | None) -> None:
    """Say what set this change off; a change without a known cause says nothing."""
    stamp = trigger_time(moments, held)
    annotations = obj["metadata"].setdefault("annotations", {})
    if stamp is not None:
        annotations[LAST_CHANGE] = stamp
    else:
        annotations.pop(LAST_CHANGE, None)
    if not annotations:
        del obj["metadata"]["annotations"]


def slice_labels(service: Object) -> dict[str, str]:
    """The Service's own labels and the three that say whose slice this is; foreign labels on the slice do not survive."""
    labels = {key: text for key, text in labels_of(service).items() if key not in _RESERVED_LABELS}
    labels[SERVICE_LABEL] = name_of(service)
    labels[MANAGED_BY_LABEL] = MANAGER
    if services.is_headless(service):
        labels[HEADLESS_LABEL] = ""
    return labels


def _new_slice(service: Object, family: str, ports: tuple[Port, ...], endpoints: list[Object]) -> Object:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": f"{name_of(service)}-",
            "namespace": namespace_of(service),
            "labels": slice_labels(service),
            "ownerReferences": [owner_reference(service, "v1", "Service")],
        },
        "addressType": family,
        "endpoints": endpoints,
        "ports": [port.as_dict() for port in ports],
    }


def _keep_placeholder(service: Object, family: str, emptied: list[Object], changes: Changes) -> list[Object]:
    """A Service without pods keeps one empty slice, so that readers can tell "none" from "not looked yet"."""
    if not emptied:
        changes.create.append(_new_slice(service, family, (), []))
        return []
    keep = next((each for each in emptied if not each.get("endpoints")), emptied[0])
    _update(service, (), keep, [], [], changes)
    return [each for each in emptied if each is not keep]

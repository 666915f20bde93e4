"""EndpointSlices: at most 1,000 addresses of one family that serve a Service."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.authentication.interface import SERVER
from controlplane.apiserver.kinds.shared import addresses, checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, UNSET, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_SHOWN = 3
_TYPES = ("FQDN", "IPv4", "IPv6")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
MAX_ENDPOINTS, MAX_PORTS, MAX_ADDRESSES = 1000, 20000, 100

_MAX_HINTS, _MAX_TOPOLOGY = 8, 16


class EndpointSliceStrategy(Strategy):
    info = ResourceInfo(GroupVersionKind("discovery.k8s.io", "v1", "EndpointSlice"), "endpointslices", "endpointslice", True)
    columns = (
        NAME,
        Column("AddressType", description="The family of all addresses in this slice."),
        Column("Ports", description="The ports that every endpoint in this slice serves."),
        Column("Endpoints", description="The addresses in this slice."),
        AGE,
    )
    allow_create_on_update = True
    has_generation = True

    def default(self, obj: Object) -> None:
        for endpoint in obj.get("endpoints") or ():
            endpoint.setdefault("conditions", {})
        for port in obj.get("ports") or ():
            if port.get("name") is None:
                port["name"] = ""
            if port.get("protocol") is None:
                port["protocol"] = "TCP"

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        kind = obj.get("addressType") or ""
        found = checks.one_of(kind, _TYPES, "addressType")
        endpoints: Sequence[Object] = obj.get("endpoints") or ()
        if len(endpoints) > MAX_ENDPOINTS:
            found.append(fieldpath.too_many("endpoints", len(endpoints), MAX_ENDPOINTS))
            return found
        for position, endpoint in enumerate(endpoints):
            found += _check_endpoint(endpoint, kind, f"endpoints[{position}]", ours=ctx.user == SERVER)
        return found + _check_ports(obj.get("ports") or ())

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return checks.immutable(obj.get("addressType"), old.get("addressType"), "addressType") + self.validate(ctx, obj)

    def warnings(self, ctx: Context, obj: Object, old: Object | None) -> list[str]:
        if obj.get("addressType") == "FQDN":
            return []
        return [
            text
            for position, endpoint in enumerate(obj.get("endpoints") or ())
            for at, address in enumerate(endpoint.get("addresses") or ())
            for text in addresses.of_ip(address, f"endpoints[{position}].addresses[{at}]")
        ]

    def row(self, obj: Object, now: datetime) -> list[Any]:
        ports = [_port(port) for port in obj.get("ports") or ()]
        addresses = [str(one) for endpoint in obj.get("endpoints") or () for one in endpoint.get("addresses") or ()]
        return [obj["metadata"]["name"], obj.get("addressType", ""), _short(ports), _short(addresses), age_of(obj, now)]


def _port(port: Object) -> str:
    if port.get("port") is not None:
        return str(port["port"])
    return str(port["name"]) if port.get("name") is not None else "*"


def _short(texts: list[str]) -> str:
    shown = ",".join(texts[:_SHOWN])
    return f"{shown} + {len(texts) - _SHOWN} more..." if len(texts) > _SHOWN else shown or UNSET


def _check_endpoint(endpoint: Object, kind: str, path: str, *, ours: bool) -> list[FieldError]:
    """``ours``: written by the server, which may well listen on the loopback address alone."""
    found: list[FieldError] = []
    addresses: Sequence[str] = endpoint.get("addresses") or ()
    if not addresses:
        found.append(fieldpath.required(f"{path}.addresses", "must contain at least 1 address"))
    elif len(addresses) > MAX_ADDRESSES:
        found.append(fieldpath.too_many(f"{path}.addresses", len(addresses), MAX_ADDRESSES))
    for position, address in enumerate(addresses):
        where = f"{path}.addresses[{position}]"
        if kind == "FQDN":
            found += checks.each(where, address, names.is_dns1123_subdomain(address))
        elif kind in _TYPES:
            found += checks.each(where, address, names.is_ip(address)) if ours else checks.reachable_address(address, where)
            if not names.is_ip(address) and (checks.plain_ip(address).version == 6) != (kind == "IPv6"):
                found.append(fieldpath.invalid(where, address, f"must be an {kind} address"))
    node = endpoint.get("nodeName")
    if node is not None:
        found += checks.each(f"{path}.nodeName", node, names.is_dns1123_subdomain(node))
    hostname = endpoint.get("hostname")
    if hostname is not None:
        found += checks.each(f"{path}.hostname", hostname, names.is_dns1123_label(hostname))
    topology = endpoint.get("deprecatedTopology") or {}
    if len(topology) > _MAX_TOPOLOGY:
        found.append(fieldpath.too_many(f"{path}.deprecatedTopology", len(topology), _MAX_TOPOLOGY))
    found += checks.labels(topology, f"{path}.deprecatedTopology")
    hints = endpoint.get("hints") or {}
    found += _check_hints(hints.get("forZones") or (), f"{path}.hints.forZones", names.is_label_value)
    return found + _check_hints(hints.get("forNodes") or (), f"{path}.hints.forNodes", names.is_dns1123_subdomain)


def _check_hints(hints: Sequence[Object], path: str, rule: Callable[[str], list[str]]) -> list[FieldError]:
    """The zones or nodes that an endpoint is meant for."""
    if len(hints) > _MAX_HINTS:
        return [fieldpath.too_many(path, len(hints), _MAX_HINTS)]
    found: list[FieldError] = []
    taken: set[str] = set()
    for position, hint in enumerate(hints):
        name, where = hint.get("name") or "", f"{path}[{position}].name"
        if name in taken:
            found.append(fieldpath.duplicate(where, name))
        taken.add(name)
        found += checks.each(where, name, rule(name))
    return found


def _check_ports(ports: Sequence[Object]) -> list[FieldError]:
    if len(ports) > MAX_PORTS:
        return [fieldpath.too_many("ports", len(ports), MAX_PORTS)]
    found: list[FieldError] = []
    taken: set[str] = set()
    for position, port in enumerate(ports):
        path, name = f"ports[{position}]", port.get("name") or ""
        if name:
            found += checks.each(f"{path}.name", name, names.is_dns1123_label(name))
        if name in taken:
            found.append(fieldpath.duplicate(f"{path}.name", name))
        taken.add(name)
        found += checks.one_of(port.get("protocol"), _PROTOCOLS, f"{path}.protocol")
        if port.get("port") is not None:
            found += checks.each(f"{path}.port", port["port"], names.is_port_number(port["port"]))
        if port.get("appProtocol"):
            found += checks.label_key(port["appProtocol"], f"{path}.appProtocol")
    return found

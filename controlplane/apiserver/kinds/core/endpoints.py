"""Endpoints: the older form of EndpointSlices, one object for each Service."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.authentication.interface import SERVER
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, NONE, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_SHOWN = 3
_PROTOCOLS = ("SCTP", "TCP", "UDP")


class EndpointsStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("", "v1", "Endpoints"),
        "endpoints",
        "endpoints",
        True,
        short_names=("ep",),
        deprecation="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    )
    columns = (NAME, Column("Endpoints", description="Addresses and ports that serve the Service of this name."), AGE)
    allow_create_on_update = True

    def default(self, obj: Object) -> None:
        for subset in obj.get("subsets") or ():
            for port in subset.get("ports") or ():
                port.setdefault("protocol", "TCP")

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        found: list[FieldError] = []
        for position, subset in enumerate(obj.get("subsets") or ()):
            found += _check_subset(subset, f"subsets[{position}]", ours=ctx.user == SERVER)
        return found

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self.validate(ctx, obj)

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return [obj["metadata"]["name"], _addresses(obj.get("subsets") or ()), age_of(obj, now)]


def _check_subset(subset: Object, path: str, *, ours: bool) -> list[FieldError]:
    """``ours``: written by the server, which may well listen on the loopback address alone."""
    found: list[FieldError] = []
    if not subset.get("addresses") and not subset.get("notReadyAddresses"):
        found.append(fieldpath.required(path, "must specify `addresses` or `notReadyAddresses`"))
    for part in ("addresses", "notReadyAddresses"):
        for position, address in enumerate(subset.get(part) or ()):
            ip = address.get("ip") or ""
            where = f"{path}.{part}[{position}]"
            found += checks.each(f"{where}.ip", ip, names.is_ip(ip)) if ours else checks.reachable_address(ip, f"{where}.ip")
            if address.get("hostname"):
                found += checks.each(f"{where}.hostname", address["hostname"], names.is_dns1123_label(address["hostname"]))
            node = address.get("nodeName")
            if node is not None:
                found += checks.each(f"{where}.nodeName", node, names.is_dns1123_subdomain(node))
    ports: Sequence[Object] = subset.get("ports") or ()
    for position, port in enumerate(ports):
        where = f"{path}.ports[{position}]"
        name = port.get("name") or ""
        if not name and len(ports) > 1:
            found.append(fieldpath.required(f"{where}.name"))
        elif name:
            found += checks.each(f"{where}.name", name, names.is_dns1123_label(name))
        number = port.get("port") or 0
        found += checks.each(f"{where}.port", number, names.is_port_number(number))
        found += checks.one_of(port.get("protocol"), _PROTOCOLS, f"{where}.protocol")
    return found


def _all(subsets: Sequence[Object]) -> Iterator[str]:
    for subset in subsets:
        addresses = [str(one.get("ip", "")) for one in subset.get("addresses") or ()]
        if not subset.get("ports"):
            yield from addresses
        for port in subset.get("ports") or ():
            for ip in addresses:
                yield f"[{ip}]:{port.get('port')}" if ":" in ip else f"{ip}:{port.get('port')}"


def _addresses(subsets: Sequence[Object]) -> str:
    if not subsets:
        return NONE
    listed = list(_all(subsets))
    text = ",".join(listed[:_SHOWN])
    return f"{text} + {len(listed) - _SHOWN} more..." if len(listed) > _SHOWN else text

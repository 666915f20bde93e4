"""Services and EndpointSlices as DNS sees them. Pure; also the informers' transforms, so that nothing else is held in memory.

``records`` indexes these values. The rules are those of the Kubernetes DNS specification 1.1 and, where it is silent, CoreDNS.
"""

import ipaddress
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from apimachinery.objects import services as questions

Object = dict[str, Any]

SERVICE_LABEL = "kubernetes.io/service-name"
TRIGGER_ANNOTATION = "endpoints.kubernetes.io/last-change-trigger-time"
FACTS, TRIGGER, FELLOWS = "facts", "trigger", "fellows"
"""Keys of a transformed object: what is known of it, when the change happened that brought it, and which DNS servers it names."""
DNS_SERVICE = ("kube-system", "kube-dns")
"""Namespace and name of the Service by which pods reach us; the zone's name server."""


@dataclass(frozen=True, slots=True)
class Port:
    """``number`` 0: there is no port, so nothing to point an SRV record at. The protocol is in lower case."""

    name: str
    protocol: str
    number: int


NO_PORTS = (Port("", "", 0),)
"""A Service or slice without ports has addresses all the same."""


@dataclass(frozen=True, slots=True)
class Service:
    """``addresses`` are the cluster IPs; ``external`` is the name behind an ExternalName Service."""

    headless: bool
    addresses: tuple[str, ...]
    ports: tuple[Port, ...]
    external: str = ""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A ready endpoint; ``hostname`` is its own or is made of its address."""

    hostname: str
    address: str


@dataclass(frozen=True, slots=True)
class Slice:
    """The ready endpoints of one EndpointSlice, each on all of the ports."""

    service: str
    endpoints: tuple[Endpoint, ...] = ()
    ports: tuple[Port, ...] = NO_PORTS


def canonical(address: str) -> str:
    """The usual text of an address, empty for what is none."""
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return ""


def host_of(address: str) -> str:
    """The label that stands for an endpoint without a host name: ``10-0-0-1``, ``2001-db8--1``."""
    label = address.replace(".", "-").replace(":", "-")
    # a label ends and begins with a letter or digit
    return f"{'0' if label.startswith('-') else ''}{label}{'0' if label.endswith('-') else ''}"


def service_facts(obj: Mapping[str, Any]) -> Service:
    ports = _ports(questions.ports(obj))
    if questions.is_external_name(obj):
        name = str(questions.spec_of(obj).get("externalName") or "").rstrip(".").lower()
        # an address is no name: as CoreDNS, there is no record for it
        return Service(headless=False, addresses=(), ports=ports, external="" if canonical(name) else name)
    addresses = tuple(filter(None, map(canonical, questions.cluster_ips(obj))))
    return Service(questions.is_headless(obj), addresses, ports)


def slice_facts(obj: Mapping[str, Any]) -> Slice:
    """Only ready endpoints; of a Service that publishes addresses that are not ready, the slice says that they are."""
    service = _shared(str((obj["metadata"].get("labels") or {}).get(SERVICE_LABEL) or ""))
    if obj.get("addressType") not in ("IPv4", "IPv6"):
        return Slice(service)
    found = (
        Endpoint(str(each.get("hostname") or host_of(address)).lower(), address)
        for each in obj.get("endpoints") or ()
        if (each.get("conditions") or {}).get("ready") is not False
        for address in filter(None, map(canonical, each.get("addresses") or ()))
    )
    return Slice(service, tuple(found), _ports(obj.get("ports") or ()))


def _ports(ports: Iterable[Mapping[str, Any]]) -> tuple[Port, ...]:
    found = tuple(
        (str(port.get("name") or "").lower(), str(port.get("protocol") or "TCP").lower(), int(port.get("port") or 0))
        for port in ports
    )
    return _shared_ports(found) if found else NO_PORTS


@lru_cache(1024)
def _shared_ports(ports: tuple[tuple[str, str, int], ...]) -> tuple[Port, ...]:
    """Most Services have the ports of others."""
    return tuple(Port(*port) for port in ports)


def trimmed_service(obj: Object) -> Object:
    """Informer transform: identity and facts."""
    return {"metadata": _identity(obj), FACTS: service_facts(obj)}


def trimmed_slice(obj: Object) -> Object:
    """Informer transform: identity, facts, trigger and fellows."""
    trigger = (obj["metadata"].get("annotations") or {}).get(TRIGGER_ANNOTATION, "")
    found = slice_facts(obj)
    fellows = _addresses(obj) if (obj["metadata"]["namespace"], found.service) == DNS_SERVICE else ()
    return {"metadata": _identity(obj), FACTS: found, TRIGGER: trigger, FELLOWS: fellows}


def _addresses(obj: Mapping[str, Any]) -> tuple[str, ...]:
    """Also of endpoints that are not ready: pods of a node's own network ask elsewhere just then."""
    return tuple(filter(None, (canonical(text) for each in obj.get("endpoints") or () for text in each.get("addresses") or ())))


def trimmed_namespace(obj: Object) -> Object:
    """Informer transform: identity."""
    return {"metadata": _identity(obj)}


def _identity(obj: Object) -> Object:
    """Strings are copied: each lies among those of the list that was read, and would hold the memory around it."""
    metadata = obj["metadata"]
    shared = {key: _shared(metadata[key]) for key in ("name", "namespace") if key in metadata}
    return shared | {key: metadata[key].encode().decode() for key in ("uid", "resourceVersion") if key in metadata}


def _shared(text: str) -> str:
    """A copy, the same one for all that are equal."""
    return sys.intern(text.encode().decode())

"""Services as the proxy sees them: one frozen value per port. Fed by the informer's handlers, emptied by ``proxier``."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from apimachinery.objects import services as questions
from netproxy.trackers.changes import Changes

Object = dict[str, Any]
Family = Literal["IPv4", "IPv6"]

PROXY_NAME_LABEL = "service.kubernetes.io/service-proxy-name"
"""Services with this label are another proxy's."""
SELECTOR = f"!{PROXY_NAME_LABEL}"


@dataclass(frozen=True, slots=True, order=True)
class PortName:
    """Identifies one port of one service; as text ``namespace/name:port``, or ``namespace/name`` for an unnamed port."""

    namespace: str
    name: str
    port: str
    protocol: str

    @property
    def service(self) -> str:
        return f"{self.namespace}/{self.name}"

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}:{self.port}" if self.port else f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ServicePort:
    """Where one port of a service is reached, and by which policy. Only addresses of ``family`` are in it."""

    name: PortName
    family: Family
    cluster_ip: str
    port: int
    node_port: int = 0
    external_ips: tuple[str, ...] = ()
    load_balancer_ips: tuple[str, ...] = ()
    source_ranges: tuple[str, ...] = ()
    affinity_seconds: int = 0
    external_local: bool = False
    internal_local: bool = False
    health_check_port: int = 0

    @property
    def externally_accessible(self) -> bool:
        return bool(self.node_port or self.external_ips or self.load_balancer_ips)

    @property
    def uses_cluster_endpoints(self) -> bool:
        """Whether endpoints of all nodes matter: also with a Local external policy, for which pods and the node itself
        are not outside traffic and reach every endpoint."""
        return not self.internal_local or self.externally_accessible

    @property
    def uses_local_endpoints(self) -> bool:
        return self.internal_local or (self.external_local and self.externally_accessible)


Ports = tuple[ServicePort, ...]


def key_of(obj: Mapping[str, Any]) -> str:
    metadata = obj["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}"


def family_of(address: str) -> Family | None:
    """None for what is no address: a packet filter would ask DNS for it, or refuse all rules because of it.

    Nor is an address with a zone: behind the percent sign Python takes whatever there is, lines of rules too.
    """
    if "%" in address:
        return None
    try:
        return "IPv6" if ipaddress.ip_address(address).version == 6 else "IPv4"
    except ValueError:
        return None


def canonical(address: str, family: Family) -> str:
    """One spelling for one address, the kernel's: IPv6 has many, and flows are compared by text."""
    return ipaddress.ip_address(address).compressed if family == "IPv6" else address


def service_ports(obj: Object, family: Family = "IPv4") -> Ports:
    """The ports to program for one family; none for headless and ExternalName services or another proxy's."""
    if questions.is_external_name(obj) or questions.is_headless(obj):
        return ()
    if PROXY_NAME_LABEL in (obj["metadata"].get("labels") or {}):
        return ()
    address = next((ip for ip in questions.cluster_ips(obj) if family_of(ip) == family), "")
    if not address:
        return ()
    spec = questions.spec_of(obj)
    balancer = questions.kind(obj) == "LoadBalancer"
    shared: dict[str, Any] = {
        "family": family,
        "cluster_ip": canonical(address, family),
        "external_ips": tuple(canonical(ip, family) for ip in questions.external_ips(obj) if family_of(ip) == family),
        "load_balancer_ips": _load_balancer_ips(obj, family) if balancer else (),
        "source_ranges": _source_ranges(obj, family) if balancer else (),
        "affinity_seconds": questions.affinity_seconds(obj),
        "external_local": questions.is_external_local(obj),
        "internal_local": questions.is_internal_local(obj),
        "health_check_port": int(spec.get("healthCheckNodePort") or 0) if balancer else 0,
    }
    namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
    return tuple(
        ServicePort(
            PortName(namespace, name, str(port.get("name") or ""), str(port.get("protocol") or "TCP")),
            port=int(port["port"]),
            node_port=int(port.get("nodePort") or 0),
            **shared,
        )
        for port in questions.ports(obj)
    )


def _load_balancer_ips(obj: Object, family: Family) -> tuple[str, ...]:
    """Addresses whose traffic arrives unchanged; with ``ipMode: Proxy`` the balancer must not be cut short."""
    ingress = ((obj.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    return tuple(
        canonical(str(each["ip"]), family)
        for each in ingress
        if each.get("ip") and each.get("ipMode", "VIP") != "Proxy" and family_of(str(each["ip"])) == family
    )


def _source_ranges(obj: Object, family: Family) -> tuple[str, ...]:
    """Valid ranges of the family; a range of everything restricts nothing."""
    ranges = []
    for text in questions.spec_of(obj).get("loadBalancerSourceRanges") or ():
        if family_of(str(text).strip().partition("/")[0]) is None:
            continue
        try:
            network = ipaddress.ip_network(str(text).strip(), strict=False)
        except ValueError:
            continue
        if network.prefixlen == 0 and f"IPv{network.version}" == family:
            return ()
        if f"IPv{network.version}" == family:
            ranges.append(str(network))
    return tuple(ranges)


def trimmed(obj: Object) -> Object:
    """Informer transform: what :func:`service_ports` reads, and identity."""
    metadata = obj["metadata"]
    kept: Object = {"metadata": {key: metadata[key] for key in _IDENTITY if key in metadata}}
    spec = obj.get("spec") or {}
    kept["spec"] = {key: spec[key] for key in _SPEC if key in spec}
    kept["spec"]["ports"] = [{key: port[key] for key in _PORT if key in port} for port in spec.get("ports") or ()]
    if (obj.get("status") or {}).get("loadBalancer"):
        kept["status"] = {"loadBalancer": obj["status"]["loadBalancer"]}
    return kept


_IDENTITY = ("name", "namespace", "uid", "resourceVersion", "labels")
_PORT = ("name", "protocol", "port", "nodePort")
_SPEC = (
    "type",
    "clusterIP",
    "clusterIPs",
    "externalIPs",
    "sessionAffinity",
    "sessionAffinityConfig",
    "loadBalancerSourceRanges",
    "externalTrafficPolicy",
    "internalTrafficPolicy",
    "healthCheckNodePort",
)


class ServiceTracker:
    """Pending changes of services, by ``namespace/name``; the value is the service's ports, ``()`` when there are none."""

    def __init__(self, family: Family = "IPv4") -> None:
        self._family: Family = family
        self._changes: Changes[str, Ports] = Changes(())
        self.total = 0

    def update(self, obj: Object) -> bool:
        """Take in an added or changed service; whether anything is pending."""
        self.total += 1
        self._changes.set(key_of(obj), service_ports(obj, self._family))
        return len(self._changes) > 0

    def delete(self, obj: Object) -> bool:
        self.total += 1
        self._changes.set(key_of(obj), ())
        return len(self._changes) > 0

    def current(self, key: str) -> Ports:
        return self._changes.get(key)

    def take(self) -> dict[str, tuple[Ports, Ports]]:
        return self._changes.take()

    @property
    def pending(self) -> int:
        return len(self._changes)

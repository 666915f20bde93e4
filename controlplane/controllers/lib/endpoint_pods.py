"""Which pods answer for a Service, and on which ports. Pure; shared by endpointslice and endpoints."""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apimachinery.meta import Object, annotations_of, is_deleting, name_of, namespace_of, uid_of
from apimachinery.objects import pods, services
from apimachinery.times import parse_time

LAST_CHANGE = "endpoints.kubernetes.io/last-change-trigger-time"
HEADLESS_LABEL = "service.kubernetes.io/headless"


@dataclass(frozen=True, slots=True)
class Port:
    """One resolved port; ``key`` order is the order in which ports are written."""

    name: str
    protocol: str
    port: int | None
    app_protocol: str | None = None

    def as_dict(self) -> Object:
        found: Object = {"name": self.name, "protocol": self.protocol}
        if self.port is not None:
            found["port"] = self.port
        if self.app_protocol is not None:
            found["appProtocol"] = self.app_protocol
        return found


def resolve_ports(service: Mapping[str, Any], pod: Mapping[str, Any]) -> tuple[Port, ...]:
    """The Service's ports as this pod serves them; a named target that the pod lacks is left out."""
    found = []
    for entry in services.ports(service):
        protocol = entry.get("protocol") or "TCP"
        number = pods.find_port(pod, services.target_port(entry), protocol)
        if number is not None:
            found.append(Port(entry.get("name") or "", protocol, number, entry.get("appProtocol")))
    return tuple(found)


def is_candidate(pod: Mapping[str, Any], *, include_terminating: bool) -> bool:
    """Has an address and is not finished; terminating pods count where their readers understand them."""
    if pods.is_terminal(pod) or not pods.pod_ips(pod):
        return False
    return include_terminating or not is_deleting(pod)


def address_of(pod: Mapping[str, Any], family: str) -> str | None:
    """The pod's address in ``IPv4`` or ``IPv6``."""
    for text in pods.pod_ips(pod):
        if (":" in text) == (family == "IPv6"):
            return text
    return None


def stable_hostname(pod: Mapping[str, Any], service: Mapping[str, Any]) -> str | None:
    """The DNS name of a pod under its headless Service."""
    spec = pods.spec_of(pod)
    if spec.get("hostname") and spec.get("subdomain") == name_of(service) and namespace_of(pod) == namespace_of(service):
        return str(spec["hostname"])
    return None


def target_ref(pod: Mapping[str, Any]) -> Object:
    return {"kind": "Pod", "namespace": namespace_of(pod), "name": name_of(pod), "uid": uid_of(pod)}


def ready_changed(pod: Mapping[str, Any]) -> datetime | None:
    """When the pod's readiness last changed: what set off the change of its endpoint."""
    condition = pods.ready_condition(pod)
    stamp = (condition or {}).get("lastTransitionTime")
    return parse_time(stamp) if stamp else None


def matters(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether a pod's change can change an endpoint (labels are compared by the caller)."""
    return _shown(old) != _shown(new)


def _shown(pod: Mapping[str, Any]) -> tuple[Any, ...]:
    spec = pods.spec_of(pod)
    place = (pods.node_name(pod), spec.get("hostname"), spec.get("subdomain"))
    return (*place, pods.pod_ips(pod), pods.is_ready(pod), is_deleting(pod), pods.is_terminal(pod))


def trigger_time(moments: Sequence[datetime], held: Mapping[str, Any] | None) -> str | None:
    """RFC 3339 of the earliest cause that is newer than the one already recorded on ``held``."""
    text = annotations_of(held).get(LAST_CHANGE) if held is not None else None
    recorded = parse_time(text) if text else None
    newer = [moment for moment in moments if recorded is None or moment > recorded]
    if not newer:
        return None
    return min(newer).strftime("%Y-%m-%dT%H:%M:%SZ")


def address_order(text: str) -> tuple[int, int]:
    parsed = ipaddress.ip_address(text)
    return parsed.version, int(parsed)

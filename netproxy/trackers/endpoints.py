"""Endpoints as the proxy sees them: EndpointSlices of one service merged per port. Fed by the informer, read by ``proxier``."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from apimachinery.times import parse_time
from netproxy.trackers.changes import Changes
from netproxy.trackers.services import Family, canonical, family_of

Object = dict[str, Any]

SERVICE_LABEL = "kubernetes.io/service-name"
HEADLESS_LABEL = "service.kubernetes.io/headless"
TRIGGER_ANNOTATION = "endpoints.kubernetes.io/last-change-trigger-time"
SELECTOR = f"!{HEADLESS_LABEL},!service.kubernetes.io/service-proxy-name"
_MAX_TRIGGERS = 100


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """One address behind a service port. ``serving`` is readiness without regard to termination."""

    ip: str
    port: int
    local: bool = False
    ready: bool = True
    serving: bool = True
    terminating: bool = False
    zones: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"


PortKey = tuple[str, str]
"""Port name and protocol, unique within a service."""
Slice = tuple[tuple[PortKey, tuple[Endpoint, ...]], ...]
Merged = Mapping[PortKey, tuple[Endpoint, ...]]


@dataclass(frozen=True, slots=True)
class EndpointsChange:
    """What became of one service's endpoints since the last look, and when the pods or the service changed."""

    previous: Merged
    current: Merged
    triggers: tuple[datetime, ...] = ()


def parse_slice(obj: Object, node: str, family: Family = "IPv4") -> Slice:
    """The endpoints of a slice by port; nothing for another family's, and a port without a number is skipped."""
    if obj.get("addressType") != family:
        return ()
    found: list[tuple[PortKey, tuple[Endpoint, ...]]] = []
    usable = [
        each for each in obj.get("endpoints") or () if each.get("addresses") and family_of(str(each["addresses"][0])) == family
    ]
    for port in obj.get("ports") or ():
        number = port.get("port")
        if number is None:
            continue
        key = (str(port.get("name") or ""), str(port.get("protocol") or "TCP"))
        endpoints = tuple(_endpoint(each, int(number), node, family) for each in usable)
        found.append((key, endpoints))
    return tuple(found)


def _endpoint(each: Mapping[str, Any], port: int, node: str, family: Family) -> Endpoint:
    """Absent conditions mean ready, serving as ready, not terminating. The first address stands for the endpoint."""
    conditions = each.get("conditions") or {}
    ready = conditions.get("ready") is not False
    serving = conditions.get("serving")
    hints = each.get("hints") or {}
    return Endpoint(
        canonical(str(each["addresses"][0]), family),
        port,
        local=bool(node) and each.get("nodeName") == node,
        ready=ready,
        serving=ready if serving is None else bool(serving),
        terminating=bool(conditions.get("terminating")),
        zones=tuple(str(zone["name"]) for zone in hints.get("forZones") or ()),
        nodes=tuple(str(each_node["name"]) for each_node in hints.get("forNodes") or ()),
    )


def merge(slices: Iterable[Slice]) -> dict[PortKey, tuple[Endpoint, ...]]:
    """One sorted tuple per port. An endpoint in two slices, as while slices are rewritten, counts once, the ready one."""
    ports: dict[PortKey, dict[tuple[str, int], Endpoint]] = {}
    for piece in slices:
        for key, endpoints in piece:
            known = ports.setdefault(key, {})
            for endpoint in endpoints:
                held = known.get((endpoint.ip, endpoint.port))
                if held is None or (endpoint.ready and not held.ready):
                    known[endpoint.ip, endpoint.port] = endpoint
    return {key: tuple(sorted(known.values())) for key, known in ports.items() if known}


def trimmed(obj: Object) -> Object:
    """Informer transform: what :func:`parse_slice` reads, and identity."""
    metadata = obj["metadata"]
    kept = {key: metadata[key] for key in ("name", "namespace", "uid", "resourceVersion") if key in metadata}
    kept["labels"] = {SERVICE_LABEL: (metadata.get("labels") or {}).get(SERVICE_LABEL, "")}
    trigger = (metadata.get("annotations") or {}).get(TRIGGER_ANNOTATION)
    if trigger:
        kept["annotations"] = {TRIGGER_ANNOTATION: trigger}
    endpoints = [
        {key: each[key] for key in ("addresses", "conditions", "nodeName", "hints") if each.get(key)}
        for each in obj.get("endpoints") or ()
    ]
    ports = [{key: port[key] for key in ("name", "protocol", "port") if key in port} for port in obj.get("ports") or ()]
    return {"metadata": kept, "addressType": obj.get("addressType"), "endpoints": endpoints, "ports": ports}


@dataclass(slots=True)
class _Service:
    slices: dict[str, Slice] = field(default_factory=dict)
    triggers: list[datetime] = field(default_factory=list)


class EndpointsTracker:
    """Pending changes of endpoints by service key ``namespace/name``."""

    def __init__(self, node: str, family: Family = "IPv4") -> None:
        self._node = node
        self._family: Family = family
        self._services: dict[str, _Service] = {}
        self._changes: Changes[str, dict[PortKey, tuple[Endpoint, ...]]] = Changes({})
        self.total = 0

    def update(self, obj: Object) -> bool:
        """Take in an added or changed slice; whether anything is pending."""
        self.total += 1
        key = _service_key(obj)
        if key is None:
            return len(self._changes) > 0
        service = self._services.setdefault(key, _Service())
        service.slices[obj["metadata"]["name"]] = parse_slice(obj, self._node, self._family)
        if self._fold(key, service):
            _note_trigger(service, obj)
        return len(self._changes) > 0

    def delete(self, obj: Object) -> bool:
        self.total += 1
        key = _service_key(obj)
        service = self._services.get(key) if key is not None else None
        if key is not None and service is not None:
            service.slices.pop(obj["metadata"]["name"], None)
            self._fold(key, service)
            if not service.slices:
                del self._services[key]
        return len(self._changes) > 0

    def _fold(self, key: str, service: _Service) -> bool:
        before = self._changes.get(key)
        merged = merge(service.slices.values())
        self._changes.set(key, merged)
        return merged != before

    def current(self, key: str) -> Merged:
        return self._changes.get(key)

    def take(self) -> dict[str, EndpointsChange]:
        taken = {}
        for key, (previous, current) in self._changes.take().items():
            service = self._services.get(key)
            taken[key] = EndpointsChange(previous, current, tuple(service.triggers) if service else ())
            if service:
                service.triggers.clear()
        return taken

    @property
    def pending(self) -> int:
        return len(self._changes)


def _service_key(obj: Object) -> str | None:
    name = (obj["metadata"].get("labels") or {}).get(SERVICE_LABEL)
    return f"{obj['metadata']['namespace']}/{name}" if name else None


def _note_trigger(service: _Service, obj: Object) -> None:
    stamp = (obj["metadata"].get("annotations") or {}).get(TRIGGER_ANNOTATION)
    if stamp and len(service.triggers) < _MAX_TRIGGERS:
        try:
            service.triggers.append(parse_time(stamp))
        except ValueError:
            return

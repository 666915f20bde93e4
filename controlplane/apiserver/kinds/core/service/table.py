"""``kubectl get services``."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from controlplane.apiserver.kinds.shared.columns import AGE, NAME, NONE, age_of, map_text, wide
from controlplane.apiserver.registry.printing import UNKNOWN
from controlplane.apiserver.registry.strategy import Column

Object = Mapping[str, Any]

COLUMNS = (
    NAME,
    Column("Type", description="How the Service is exposed."),
    Column("Cluster-IP", description="The virtual address inside the cluster."),
    Column("External-IP", description="Addresses by which the Service is reached from outside."),
    Column("Port(s)", description="Ports, node ports and protocols."),
    AGE,
    wide("Selector", "The labels of the pods behind the Service."),
)


def service_row(service: Object, now: datetime) -> list[Any]:
    spec = service.get("spec") or {}
    addresses: Sequence[str] = spec.get("clusterIPs") or ()
    return [
        service["metadata"]["name"],
        spec.get("type", ""),
        addresses[0] if addresses else NONE,
        _external(spec, service.get("status") or {}),
        ",".join(map(_port, spec.get("ports") or ())) or NONE,
        age_of(service, now),
        map_text(spec.get("selector")),
    ]


def _port(port: Object) -> str:
    if port.get("nodePort"):
        return f"{port.get('port', 0)}:{port['nodePort']}/{port.get('protocol', '')}"
    return f"{port.get('port', 0)}/{port.get('protocol', '')}"


def _external(spec: Object, status: Object) -> str:
    given: list[str] = list(spec.get("externalIPs") or ())
    kind = spec.get("type")
    if kind in ("ClusterIP", "NodePort"):
        return ",".join(given) or NONE
    if kind == "LoadBalancer":
        ingress = (status.get("loadBalancer") or {}).get("ingress") or ()
        balanced = [str(one.get("ip") or one.get("hostname")) for one in ingress if one.get("ip") or one.get("hostname")]
        return ",".join([*dict.fromkeys(balanced), *given]) or "<pending>"
    return str(spec.get("externalName", "")) if kind == "ExternalName" else UNKNOWN

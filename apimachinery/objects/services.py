"""Questions about Services, asked by the endpoint controllers, the proxy and cluster DNS."""

from collections.abc import Mapping
from typing import Any

Service = Mapping[str, Any]

NONE = "None"


def spec_of(service: Service) -> Mapping[str, Any]:
    return service.get("spec") or {}


def kind(service: Service) -> str:
    return str(spec_of(service).get("type") or "ClusterIP")


def is_headless(service: Service) -> bool:
    return spec_of(service).get("clusterIP") == NONE


def is_external_name(service: Service) -> bool:
    return kind(service) == "ExternalName"


def selector(service: Service) -> Mapping[str, str]:
    return spec_of(service).get("selector") or {}


def selects(service: Service, labels: Mapping[str, str]) -> bool:
    """Whether the selector matches; a Service without a selector selects nothing."""
    wanted = selector(service)
    return bool(wanted) and all(labels.get(key) == value for key, value in wanted.items())


def ports(service: Service) -> list[dict[str, Any]]:
    return list(spec_of(service).get("ports") or ())


def cluster_ips(service: Service) -> list[str]:
    """The virtual addresses; empty for headless and ExternalName Services."""
    spec = spec_of(service)
    listed = list(spec.get("clusterIPs") or ()) or ([spec["clusterIP"]] if spec.get("clusterIP") else [])
    return [ip for ip in listed if ip and ip != NONE]


def ip_families(service: Service) -> list[str]:
    """``IPv4``/``IPv6`` in order of preference; the API server fills them in, IPv4 stands for objects older than that."""
    return list(spec_of(service).get("ipFamilies") or ()) or ["IPv4"]


def publishes_not_ready(service: Service) -> bool:
    return bool(spec_of(service).get("publishNotReadyAddresses"))


def is_external_local(service: Service) -> bool:
    """``externalTrafficPolicy: Local``: outside traffic stays on the node it reached, and keeps its source address."""
    return spec_of(service).get("externalTrafficPolicy") == "Local"


def is_internal_local(service: Service) -> bool:
    return spec_of(service).get("internalTrafficPolicy") == "Local"


def affinity_seconds(service: Service) -> int:
    """Seconds a client sticks to its endpoint; 0 without session affinity."""
    spec = spec_of(service)
    if spec.get("sessionAffinity") != "ClientIP":
        return 0
    config = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
    return int(config.get("timeoutSeconds") or 10800)


def external_ips(service: Service) -> list[str]:
    return list(spec_of(service).get("externalIPs") or ())


def load_balancer_ips(service: Service) -> list[str]:
    ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    return [str(each["ip"]) for each in ingress if each.get("ip")]


def target_port(port: Mapping[str, Any]) -> int | str:
    """``targetPort``, or the Service's own port where none is given."""
    target: int | str | None = port.get("targetPort")
    return target if target else int(port["port"])

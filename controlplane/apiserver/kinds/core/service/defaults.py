"""Defaults of Services, and what an update takes over from the stored object or drops with a changed type."""

from typing import Any

Object = dict[str, Any]

AFFINITY_SECONDS = 10800
NODE_PORT_TYPES = ("NodePort", "LoadBalancer")
CLUSTER_IP_TYPES = ("ClusterIP", "NodePort", "LoadBalancer")


def default_service(service: Object) -> None:
    spec = service.setdefault("spec", {})
    if not spec.get("sessionAffinity"):
        spec["sessionAffinity"] = "None"
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    elif spec["sessionAffinity"] == "ClientIP":
        client = ((spec.get("sessionAffinityConfig") or {}).get("clientIP")) or {}
        if client.get("timeoutSeconds") is None:
            spec["sessionAffinityConfig"] = {"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}}
    if not spec.get("type"):
        spec["type"] = "ClusterIP"
    for port in spec.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
        if not port.get("targetPort"):
            port["targetPort"] = port.get("port")
    if is_external(spec) and not spec.get("externalTrafficPolicy"):
        spec["externalTrafficPolicy"] = "Cluster"
    if spec["type"] in CLUSTER_IP_TYPES and spec.get("internalTrafficPolicy") is None:
        spec["internalTrafficPolicy"] = "Cluster"
    if spec["type"] == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is None:
        spec["allocateLoadBalancerNodePorts"] = True
    for ingress in ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ():
        if ingress.get("ip") and not ingress.get("ipMode"):
            ingress["ipMode"] = "VIP"


def is_external(spec: Object) -> bool:
    """Reachable from outside the cluster."""
    return spec.get("type") in NODE_PORT_TYPES or (spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs")))


def is_headless(spec: Object) -> bool:
    return "None" in (spec.get("clusterIPs") or [spec.get("clusterIP")])[:1]


def needs_cluster_ip(spec: Object) -> bool:
    return spec.get("type") in CLUSTER_IP_TYPES


def needs_node_ports(spec: Object) -> bool:
    if spec.get("type") == "LoadBalancer":
        return spec.get("allocateLoadBalancerNodePorts") is not False
    return spec.get("type") == "NodePort"


def needs_health_port(spec: Object) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def normalize_cluster_ips(spec: Object, previous: Object | None) -> None:
    """Bring ``clusterIP`` and ``clusterIPs`` together for clients that know only the first of them."""
    single, listed = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    if previous is None:
        if single and not listed:
            spec["clusterIPs"] = [single]
        elif listed and not single:
            spec["clusterIP"] = listed[0]
        return
    old_single, old_listed = previous.get("clusterIP") or "", previous.get("clusterIPs") or []
    if old_single and not single and listed == old_listed:
        spec.pop("clusterIPs", None)  # cleared by a client that knows the single field alone
    elif (single and single != old_single and listed == old_listed) or (single and not listed and not old_single):
        spec["clusterIPs"] = [single]


def keep_allocated(spec: Object, previous: Object) -> None:
    """An update that leaves out addresses and ports means to keep them."""
    if needs_cluster_ip(spec) and needs_cluster_ip(previous):
        if not spec.get("clusterIP") and previous.get("clusterIP"):
            spec["clusterIP"] = previous["clusterIP"]
        if not spec.get("clusterIPs") and spec.get("clusterIP") == previous.get("clusterIP") and previous.get("clusterIPs"):
            spec["clusterIPs"] = list(previous["clusterIPs"])
    for field in ("ipFamilies", "ipFamilyPolicy"):
        if needs_cluster_ip(spec) and not spec.get(field) and previous.get(field):
            spec[field] = previous[field]
    if needs_node_ports(spec) and needs_node_ports(previous):
        held = {(port.get("protocol"), port.get("port")): port.get("nodePort") for port in previous.get("ports") or ()}
        for port in spec.get("ports") or ():
            number = held.get((port.get("protocol"), port.get("port")))
            if not port.get("nodePort") and number and not _uses(spec, number, port.get("protocol")):
                port["nodePort"] = number
    if needs_health_port(spec) and needs_health_port(previous) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = previous.get("healthCheckNodePort")


def _uses(spec: Object, number: int, protocol: str | None) -> bool:
    return any(port.get("nodePort") == number and port.get("protocol") == protocol for port in spec["ports"])


def drop_unused(spec: Object, previous: Object) -> None:
    """A changed type takes along what only the old type has, unless the client changed that field itself."""
    if needs_cluster_ip(previous) and not needs_cluster_ip(spec):
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(field) == previous.get(field):
                spec.pop(field, None)
    if previous.get("type") != spec.get("type"):
        _drop_ports(spec, previous)
    if needs_health_port(previous) and not needs_health_port(spec):
        _drop_same(spec, previous, "healthCheckNodePort")
    if previous.get("type") == "LoadBalancer" != spec.get("type"):
        _drop_same(spec, previous, "allocateLoadBalancerNodePorts")
        _drop_same(spec, previous, "loadBalancerClass")
    if is_external(previous) and not is_external(spec):
        _drop_same(spec, previous, "externalTrafficPolicy")


def _drop_same(spec: Object, previous: Object, field: str) -> None:
    if spec.get(field) == previous.get(field):
        spec.pop(field, None)


def _drop_ports(spec: Object, previous: Object) -> None:
    if spec.get("type") in NODE_PORT_TYPES or previous.get("type") not in NODE_PORT_TYPES:
        return
    held = [port.get("nodePort") for port in previous.get("ports") or ()]
    ports = spec.get("ports") or ()
    if all(not port.get("nodePort") or port["nodePort"] in held for port in ports):
        for port in ports:
            port.pop("nodePort", None)

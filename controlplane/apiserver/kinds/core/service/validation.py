"""Validation of Services: ports, types, policies, and what may not change."""

from collections.abc import Sequence
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.kinds.core.service.defaults import is_external, is_headless, needs_cluster_ip
from controlplane.apiserver.kinds.core.service.families import check_families
from controlplane.apiserver.kinds.shared import addresses, checks

Object = dict[str, Any]

TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MAX_AFFINITY = 86400
_KUBELET_PORT = 10250

_OLD_HINTS = "service.kubernetes.io/topology-aware-hints"


def validate_service(service: Object, offered: Sequence[str]) -> list[FieldError]:
    """``offered`` are the cluster's IP families."""
    spec = service.get("spec") or {}
    kind, headless = spec.get("type"), is_headless(spec)
    ports: Sequence[Object] = spec.get("ports") or ()
    found: list[FieldError] = []
    if not ports and not headless and kind != "ExternalName":
        found.append(fieldpath.required("spec.ports"))
    if headless and kind in ("LoadBalancer", "NodePort"):
        text = f"may not be set to 'None' for {kind} services"
        found.append(fieldpath.invalid("spec.clusterIPs[0]", "None", text))
    if kind == "ExternalName":
        found += _external_name(spec)
    found += _check_ports(ports, kind)
    if spec.get("selector"):
        found += checks.labels(spec["selector"], "spec.selector")
    found += _affinity(spec)
    for position, address in enumerate(spec.get("externalIPs") or ()):
        found += checks.reachable_address(address, f"spec.externalIPs[{position}]")
    found += checks.one_of(kind, TYPES, "spec.type")
    found += _policies(spec) + _load_balancer(spec)
    return found + check_families(spec, offered)


def _external_name(spec: Object) -> list[FieldError]:
    name = (spec.get("externalName") or "").removesuffix(".")
    if not name:
        return [fieldpath.required("spec.externalName")]
    return checks.each("spec.externalName", name, names.is_dns1123_subdomain(name))


def _check_ports(ports: Sequence[Object], kind: Any) -> list[FieldError]:
    found: list[FieldError] = []
    taken: set[str] = set()
    pairs: set[tuple[str, int]] = set()
    node_pairs: set[tuple[str, int]] = set()
    for position, port in enumerate(ports):
        path = f"spec.ports[{position}]"
        found += _check_port(port, path, len(ports) > 1, taken)
        protocol, number, node_port = port.get("protocol") or "", port.get("port") or 0, port.get("nodePort") or 0
        if (protocol, number) in pairs:
            found.append(fieldpath.duplicate(path, {"port": number, "protocol": protocol}))
        pairs.add((protocol, number))
        if kind == "LoadBalancer" and number == _KUBELET_PORT:
            text = f"may not expose port {number} externally since it is used by kubelet"
            found.append(fieldpath.invalid(path, number, text))
        if not node_port:
            continue
        if kind in ("ClusterIP", "ExternalName"):
            text = f"may not be used when `type` is '{kind}'"
            found.append(fieldpath.forbidden(f"{path}.nodePort", text))
        elif (protocol, node_port) in node_pairs:
            found.append(fieldpath.duplicate(f"{path}.nodePort", node_port))
        node_pairs.add((protocol, node_port))
    return found


def _check_port(port: Object, path: str, require_name: bool, taken: set[str]) -> list[FieldError]:
    found: list[FieldError] = []
    name, number, target = port.get("name") or "", port.get("port") or 0, port.get("targetPort") or 0
    if require_name and not name:
        found.append(fieldpath.required(f"{path}.name"))
    elif name:
        found += checks.each(f"{path}.name", name, names.is_dns1123_label(name))
        if name in taken:
            found.append(fieldpath.duplicate(f"{path}.name", name))
        taken.add(name)
    found += checks.each(f"{path}.port", number, names.is_port_number(number))
    found += checks.one_of(port.get("protocol"), _PROTOCOLS, f"{path}.protocol")
    problems = names.is_port_name(target) if isinstance(target, str) else names.is_port_number(target)
    found += checks.each(f"{path}.targetPort", target, problems)
    if port.get("appProtocol"):
        found += checks.label_key(port["appProtocol"], f"{path}.appProtocol")
    return found


def _affinity(spec: Object) -> list[FieldError]:
    found = checks.one_of(spec.get("sessionAffinity"), ("ClientIP", "None"), "spec.sessionAffinity")
    config = spec.get("sessionAffinityConfig")
    if spec.get("sessionAffinity") == "None" and config is not None:
        text = "must not be set when session affinity is None"
        found.append(fieldpath.forbidden("spec.sessionAffinityConfig", text))
    elif spec.get("sessionAffinity") == "ClientIP":
        seconds = ((config or {}).get("clientIP") or {}).get("timeoutSeconds")
        path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
        if seconds is None:
            found.append(fieldpath.required(path))
        elif not 0 < seconds <= _MAX_AFFINITY:
            found.append(fieldpath.invalid(path, seconds, f"must be greater than 0 and less than {_MAX_AFFINITY}"))
    return found


def _policies(spec: Object) -> list[FieldError]:
    found: list[FieldError] = []
    outer, inner = spec.get("externalTrafficPolicy"), spec.get("internalTrafficPolicy")
    if outer and not is_external(spec):
        text = "may only be set for externally-accessible services"
        found.append(fieldpath.invalid("spec.externalTrafficPolicy", outer, text))
    elif is_external(spec):
        found += checks.one_of(outer, ("Cluster", "Local"), "spec.externalTrafficPolicy")
    if inner is not None:
        found += checks.one_of(inner, ("Cluster", "Local"), "spec.internalTrafficPolicy")
    health = spec.get("healthCheckNodePort") or 0
    if health and not (spec.get("type") == "LoadBalancer" and outer == "Local"):
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        found.append(fieldpath.invalid("spec.healthCheckNodePort", health, text))
    distribution = spec.get("trafficDistribution")
    choices = ("PreferClose", "PreferSameNode", "PreferSameZone")
    if distribution is not None and distribution not in choices:
        found.append(fieldpath.not_supported("spec.trafficDistribution", distribution, choices))
    return found


def _load_balancer(spec: Object) -> list[FieldError]:
    found: list[FieldError] = []
    balanced = spec.get("type") == "LoadBalancer"
    ranges = spec.get("loadBalancerSourceRanges") or ()
    if ranges and not balanced:
        text = "may only be used when `type` is 'LoadBalancer'"
        found.append(fieldpath.forbidden("spec.LoadBalancerSourceRanges", text))
    for position, text in enumerate(ranges):
        found += checks.each(f"spec.LoadBalancerSourceRanges[{position}]", text, names.is_cidr(text.strip()))
    if spec.get("allocateLoadBalancerNodePorts") is not None and not balanced:
        text = "may only be used when `type` is 'LoadBalancer'"
        found.append(fieldpath.forbidden("spec.allocateLoadBalancerNodePorts", text))
    balancer = spec.get("loadBalancerClass")
    if balancer is not None:
        if not balanced:
            text = "may only be used when `type` is 'LoadBalancer'"
            found.append(fieldpath.forbidden("spec.loadBalancerClass", text))
        else:
            found += checks.label_key(balancer, "spec.loadBalancerClass")
    return found


def service_warnings(service: Object) -> list[str]:
    """Fields that a Service of this kind ignores, addresses in odd forms, what is on its way out: ``GetWarningsForService``."""
    spec, annotations = service.get("spec") or {}, service["metadata"].get("annotations") or {}
    headless, external = is_headless(spec), spec.get("type") == "ExternalName"
    found: list[str] = []
    if _OLD_HINTS in annotations:
        found.append(f"annotation {_OLD_HINTS} is deprecated, please use service.kubernetes.io/topology-mode instead")
    if spec.get("clusterIP") not in (None, "", "None"):
        for position, address in enumerate(spec.get("clusterIPs") or ()):
            found += addresses.of_ip(address, f"spec.clusterIPs[{position}]")
    if headless:
        found += [
            f"spec.{field} is ignored for headless services" for field in ("loadBalancerIP", "externalIPs") if spec.get(field)
        ]
        if spec.get("sessionAffinity") != "None":
            found.append("spec.SessionAffinity is ignored for headless services")
    for position, address in enumerate(spec.get("externalIPs") or ()):
        found += addresses.of_ip(address, f"spec.externalIPs[{position}]")
    if spec.get("externalIPs") and not headless and not external:
        found.append("spec.externalIPs is deprecated and may no longer be implemented in some clusters")
    if spec.get("loadBalancerIP"):
        found += addresses.of_ip(spec["loadBalancerIP"], "spec.loadBalancerIP")
    for position, cidr in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        found += addresses.of_cidr(cidr, f"spec.loadBalancerSourceRanges[{position}]")
    if external and spec.get("externalIPs"):
        found.append('spec.externalIPs is ignored when spec.type is "ExternalName"')
    if not external and spec.get("externalName"):
        found.append('spec.externalName is ignored when spec.type is not "ExternalName"')
    if spec.get("trafficDistribution") == "PreferClose":
        found.append('spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"')
    return found


def validate_service_update(service: Object, old: Object, offered: Sequence[str]) -> list[FieldError]:
    spec, previous = service.get("spec") or {}, old.get("spec") or {}
    found: list[FieldError] = []
    if needs_cluster_ip(spec) and needs_cluster_ip(previous):
        found += _same_addresses(spec, previous)
    if spec.get("type") == previous.get("type") == "LoadBalancer":
        new, held = spec.get("loadBalancerClass"), previous.get("loadBalancerClass")
        if new != held:
            found.append(fieldpath.invalid("spec.loadBalancerClass", new, "may not change once set"))
    return found + validate_service(service, offered)


def _same_addresses(spec: Object, previous: Object) -> list[FieldError]:
    """The first address and family stay for the life of the Service; the second may come and go with the policy."""
    listed, held = spec.get("clusterIPs") or [], previous.get("clusterIPs") or []
    found: list[FieldError] = []
    if held and not listed:
        found.append(fieldpath.invalid("spec.clusterIPs[0]", listed, "primary clusterIP can not be unset"))
    elif held and listed[0] != held[0]:
        found.append(fieldpath.invalid("spec.clusterIPs[0]", listed, "may not change once set"))
    elif len(held) > 1 and len(listed) > 1 and listed[1] != held[1]:
        found.append(fieldpath.invalid("spec.clusterIPs[1]", listed, "may not change once set"))
    families, had = spec.get("ipFamilies") or [], previous.get("ipFamilies") or []
    if had and families and families[0] != had[0]:
        found.append(fieldpath.invalid("spec.ipFamilies[0]", families, "may not change once set"))
    return found

"""NetworkPolicies: which traffic may reach and leave the pods they select."""

import ipaddress
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared import addresses, checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, age_of, selector_text
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_PROTOCOLS = ("SCTP", "TCP", "UDP")
_TYPES = ("Egress", "Ingress")


class NetworkPolicyStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("networking.k8s.io", "v1", "NetworkPolicy"),
        "networkpolicies",
        "networkpolicy",
        True,
        short_names=("netpol",),
    )
    columns = (NAME, Column("Pod-Selector", description="The pods to which the rules apply."), AGE)
    has_generation = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if spec.get("podSelector") is None:
            spec["podSelector"] = {}
        for part in ("ingress", "egress"):
            for rule in spec.get(part) or ():
                for port in rule.get("ports") or ():
                    if port.get("protocol") is None:
                        port["protocol"] = "TCP"
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        found = checks.label_selector(spec.get("podSelector"), "spec.podSelector")
        for part, peers in (("ingress", "from"), ("egress", "to")):
            for position, rule in enumerate(spec.get(part) or ()):
                found += _check_rule(rule, peers, f"spec.{part}[{position}]")
        types = spec.get("policyTypes") or []
        if len(types) > 2:
            found.append(fieldpath.invalid("spec.policyTypes", types, "may not specify more than two policyTypes"))
        for position, kind in enumerate(types):
            if kind not in _TYPES:
                found.append(fieldpath.not_supported(f"spec.policyTypes[{position}]", kind, _TYPES))
        return found

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self.validate(ctx, obj)

    def warnings(self, ctx: Context, obj: Object, old: Object | None) -> list[str]:
        found: list[str] = []
        for part, peers in (("ingress", "from"), ("egress", "to")):
            for position, rule in enumerate(obj["spec"].get(part) or ()):
                for at, peer in enumerate(rule.get(peers) or ()):
                    block, where = peer.get("ipBlock") or {}, f"spec.{part}[{position}].{peers}[{at}].ipBlock"
                    found += addresses.of_cidr(block.get("cidr") or "", f"{where}.cidr")
                    for number, exception in enumerate(block.get("except") or ()):
                        found += addresses.of_cidr(exception, f"{where}.except[{number}]")
        return found

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return [obj["metadata"]["name"], selector_text((obj.get("spec") or {}).get("podSelector")), age_of(obj, now)]


def _check_rule(rule: Mapping[str, Any], peers: str, path: str) -> list[FieldError]:
    found: list[FieldError] = []
    for position, port in enumerate(rule.get("ports") or ()):
        found += _check_port(port, f"{path}.ports[{position}]")
    for position, peer in enumerate(rule.get(peers) or ()):
        found += _check_peer(peer, f"{path}.{peers}[{position}]")
    return found


def _check_port(port: Mapping[str, Any], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    if port.get("protocol") not in _PROTOCOLS:
        found.append(fieldpath.not_supported(f"{path}.protocol", port.get("protocol"), _PROTOCOLS))
    number, end = port.get("port"), port.get("endPort")
    if isinstance(number, str):
        found += checks.each(f"{path}.port", number, names.is_port_name(number))
    elif number is not None:
        found += checks.each(f"{path}.port", number, names.is_port_number(number))
    if end is not None:
        if number is None:
            found.append(fieldpath.invalid(f"{path}.endPort", end, "may not be specified when `port` is not specified"))
        elif isinstance(number, str):
            found.append(fieldpath.invalid(f"{path}.endPort", end, "may not be specified when `port` is non-numeric"))
        else:
            if end < number:
                found.append(fieldpath.invalid(f"{path}.endPort", end, "must be greater than or equal to `port`"))
            found += checks.each(f"{path}.endPort", end, names.is_port_number(end))
    return found


def _check_peer(peer: Mapping[str, Any], path: str) -> list[FieldError]:
    given = [name for name in ("podSelector", "namespaceSelector", "ipBlock") if peer.get(name) is not None]
    if not given:
        return [fieldpath.required(path, "must specify a peer")]
    if "ipBlock" in given and len(given) > 1:
        return [fieldpath.forbidden(path, "may not specify both ipBlock and another peer")]
    found: list[FieldError] = []
    for name in given:
        if name == "ipBlock":
            found += _check_block(peer[name], f"{path}.ipBlock")
        else:
            found += checks.label_selector(peer[name], f"{path}.{name}")
    return found


def _check_block(block: Mapping[str, Any], path: str) -> list[FieldError]:
    cidr = block.get("cidr") or ""
    if not cidr:
        return [fieldpath.required(f"{path}.cidr")]
    problems = names.is_cidr(cidr)
    found = checks.each(f"{path}.cidr", cidr, problems)
    for position, exception in enumerate(block.get("except") or ()):
        where = f"{path}.except[{position}]"
        wrong = names.is_cidr(exception)
        found += checks.each(where, exception, wrong)
        if not problems and not wrong:
            outer, inner = ipaddress.ip_network(cidr, strict=False), ipaddress.ip_network(exception, strict=False)
            inside = outer.version == inner.version and inner != outer and inner.subnet_of(outer)  # type: ignore[arg-type]
            if not inside:
                found.append(fieldpath.invalid(where, exception, "must be a strict subset of `cidr`"))
    return found

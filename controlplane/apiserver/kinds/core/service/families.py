"""IP families of Services: what the cluster offers, what a Service asks for, and how the two meet."""

import ipaddress
from collections.abc import Sequence
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.kinds.core.service.defaults import is_headless, needs_cluster_ip

Object = dict[str, Any]
FAMILIES = ("IPv4", "IPv6")
POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")


def family_of(address: str) -> str:
    return "IPv6" if ":" in address else "IPv4"


def families_of(ranges: Sequence[str]) -> tuple[str, ...]:
    """The families of the cluster's Service ranges, the first one being the default."""
    return tuple(f"IPv{ipaddress.ip_network(cidr).version}" for cidr in ranges)


def fill_families(spec: Object, offered: Sequence[str]) -> None:
    """``ipFamilies`` and ``ipFamilyPolicy`` where the client left them open."""
    if not needs_cluster_ip(spec):
        return
    headless = is_headless(spec)
    wanted = list(spec.get("ipFamilies") or ())
    if headless and not spec.get("selector"):
        _fill_selectorless(spec, wanted, offered)
        return
    if not headless:
        wanted += [family_of(address) for address in (spec.get("clusterIPs") or [])[len(wanted) :]]
    if not spec.get("ipFamilyPolicy"):
        spec["ipFamilyPolicy"] = "RequireDualStack" if len(wanted) > 1 else "SingleStack"
    if not wanted:
        wanted.append(offered[0])
    if len(wanted) == 1 and spec["ipFamilyPolicy"] != "SingleStack" and len(offered) > 1:
        wanted.append(_other(wanted[0]))
    spec["ipFamilies"] = wanted


def _fill_selectorless(spec: Object, wanted: list[str], offered: Sequence[str]) -> None:
    """Its endpoints are somebody else's business: it may have both families, whatever the cluster offers."""
    if not spec.get("ipFamilyPolicy"):
        spec["ipFamilyPolicy"] = "SingleStack" if len(wanted) == 1 else "RequireDualStack"
    if not wanted:
        wanted.append(offered[0])
    if len(wanted) == 1 and spec["ipFamilyPolicy"] != "SingleStack":
        wanted.append(_other(wanted[0]))
    spec["ipFamilies"] = wanted


def _other(family: str) -> str:
    return "IPv4" if family == "IPv6" else "IPv6"


def check_families(spec: Object, offered: Sequence[str]) -> list[FieldError]:
    """``ipFamilies``, ``ipFamilyPolicy`` and ``clusterIPs`` of a Service."""
    if not needs_cluster_ip(spec):
        text = "may not be set for ExternalName services"
        given = [field for field in ("clusterIPs", "ipFamilies", "ipFamilyPolicy") if spec.get(field)]
        return [fieldpath.forbidden(f"spec.{field}", text) for field in given]
    policy, wanted = spec.get("ipFamilyPolicy"), spec.get("ipFamilies") or []
    found: list[FieldError] = []
    if policy not in POLICIES:
        found.append(fieldpath.not_supported("spec.ipFamilyPolicy", policy, POLICIES))
    selectorless = is_headless(spec) and not spec.get("selector")
    for position, family in enumerate(wanted):
        path = f"spec.ipFamilies[{position}]"
        if family not in FAMILIES:
            found.append(fieldpath.not_supported(path, family, FAMILIES))
        elif family in wanted[:position]:
            found.append(fieldpath.duplicate(path, family))
        elif family not in offered and not selectorless:
            found.append(fieldpath.invalid(path, family, "not configured on this cluster"))
    if policy == "RequireDualStack" and len(offered) < 2 and not selectorless:
        text = "this cluster is not configured for dual-stack services"
        found.append(fieldpath.invalid("spec.ipFamilyPolicy", policy, text))
    if policy == "SingleStack" and len(wanted) > 1:
        text = "must be RequireDualStack or PreferDualStack when multiple ipFamilies are specified"
        found.append(fieldpath.invalid("spec.ipFamilyPolicy", policy, text))
    return found + _check_addresses(spec, wanted)


def _check_addresses(spec: Object, wanted: Sequence[str]) -> list[FieldError]:
    listed = spec.get("clusterIPs") or []
    single = spec.get("clusterIP") or ""
    if not listed:
        return [fieldpath.required("spec.clusterIPs")] if single else []
    if single != listed[0]:
        return [fieldpath.invalid("spec.clusterIPs", listed, "first value must match `clusterIP`")]
    if "None" in listed:
        text = "'None' must be the first and only value"
        return [fieldpath.invalid("spec.clusterIPs", listed, text)] if len(listed) > 1 else []
    if len(listed) > 2:
        return [fieldpath.invalid("spec.clusterIPs", listed, "may only hold up to 2 values")]
    found: list[FieldError] = []
    for position, address in enumerate(listed):
        path = f"spec.clusterIPs[{position}]"
        problems = names.is_ip(address)
        found += [fieldpath.invalid(path, address, problem) for problem in problems]
        if not problems and position < len(wanted) and family_of(address) != wanted[position]:
            text = f"expected an {wanted[position]} value as indicated by `ipFamilies[{position}]`"
            found.append(fieldpath.invalid(path, address, text))
    if len(listed) == 2 and family_of(listed[0]) == family_of(listed[1]):
        text = "may specify no more than one IP for each IP family"
        found.append(fieldpath.invalid("spec.clusterIPs", listed, text))
    return found

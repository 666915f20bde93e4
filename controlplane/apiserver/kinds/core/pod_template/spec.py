"""Validation of whole pod specs and pod templates (upstream's ``ValidatePodSpec`` and ``ValidatePodTemplateSpec``)."""

from collections.abc import Mapping, Sequence
from typing import Any

from apimachinery import fieldpath, names, quantity
from apimachinery.fieldpath import FieldError
from apimachinery.objects import requests
from controlplane.apiserver.kinds.core.pod_template.containers import PodScope, validate_containers
from controlplane.apiserver.kinds.core.pod_template.operating_system import validate_system
from controlplane.apiserver.kinds.core.pod_template.scheduling import validate_scheduling
from controlplane.apiserver.kinds.core.pod_template.security import validate_pod_security
from controlplane.apiserver.kinds.core.pod_template.volumes import validate_volumes
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.amounts import container_resource_name, requirements, resource_value

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_MAX_INT32 = 2**31 - 1
_MAX_KERNEL_NAME = 64
_MAX_SEARCH_CHARACTERS = 2048


def scope_of(spec: Mapping[str, Any], volumes: Mapping[str, Mapping[str, Any]], *, is_pod: bool) -> PodScope:
    """What the checks of containers must know; ``volumes`` are those that may be mounted."""
    grace = spec.get("terminationGracePeriodSeconds")
    return PodScope(
        volumes,
        30 if grace is None else grace,
        bool(spec.get("hostNetwork")),
        is_pod,
        spec.get("restartPolicy") or "",
        spec.get("hostUsers") is not False,
        (spec.get("os") or {}).get("name") or "",
        {one["name"] for one in spec.get("resourceClaims") or () if one.get("name")},
    )


def validate_template(template: Mapping[str, Any], path: str) -> list[FieldError]:
    """A ``PodTemplateSpec`` at ``path``."""
    found = validate_template_metadata(template, path)
    spec = template.get("spec") or {}
    found += validate_pod_spec(spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        found.append(fieldpath.forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template"))
    return found


def validate_template_metadata(template: Mapping[str, Any], path: str) -> list[FieldError]:
    """The labels and annotations of a template, which is all that is looked at in one of a StatefulSet."""
    metadata = template.get("metadata") or {}
    found: list[FieldError] = []
    if metadata.get("labels"):
        found += checks.labels(metadata["labels"], f"{path}.labels")
    if metadata.get("annotations"):
        found += checks.annotations(metadata["annotations"], f"{path}.annotations")
    return found


def validate_pod_spec(spec: Mapping[str, Any], path: str, *, is_pod: bool = False) -> list[FieldError]:
    """A ``PodSpec`` at ``path``; ``is_pod`` for a Pod itself."""
    found, volumes = validate_volumes(spec.get("volumes") or [], f"{path}.volumes")
    found += validate_containers(spec, scope_of(spec, volumes, is_pod=is_pod), path)
    if spec.get("restartPolicy") not in _RESTART_POLICIES:
        found += checks.one_of(spec.get("restartPolicy"), _RESTART_POLICIES, f"{path}.restartPolicy")
    if spec.get("dnsPolicy") not in _DNS_POLICIES:
        found += checks.one_of(spec.get("dnsPolicy"), _DNS_POLICIES, f"{path}.dnsPolicy")
    found += validate_pod_security(spec, path)
    found += validate_system(spec, path)
    found += validate_scheduling(spec, path)
    if spec.get("resourceClaims"):
        found += _resource_claims(spec["resourceClaims"], f"{path}.resourceClaims")
    found += _names(spec, path) + _numbers(spec, path)
    found += _dns(spec, path)
    if spec.get("hostAliases"):
        found += _host_aliases(spec["hostAliases"], f"{path}.hostAliases")
    for position, gate in enumerate(spec.get("readinessGates") or ()):
        kind = gate.get("conditionType") or ""
        found += checks.each(f"{path}.readinessGates[{position}].conditionType", kind, names.is_qualified_name(kind))
    for name, amount in (spec.get("overhead") or {}).items():
        where = f"{path}.overhead[{name}]"
        found += container_resource_name(name, where) + resource_value(name, amount, where)
    if spec.get("resources"):
        found += _pod_resources(spec, f"{path}.resources")
    return found


def _resource_claims(claims: Sequence[Mapping[str, Any]], path: str) -> list[FieldError]:
    """``resourceClaims`` (KEP-4381): each names a claim that exists, or a template to make one of."""
    found: list[FieldError] = []
    taken: set[str] = set()
    for position, claim in enumerate(claims):
        where, name = f"{path}[{position}]", claim.get("name") or ""
        if not name:
            found.append(fieldpath.required(f"{where}.name"))
        elif name in taken:
            found.append(fieldpath.duplicate(f"{where}.name", name))
        else:
            found += checks.each(f"{where}.name", name, names.is_dns1123_label(name))
            taken.add(name)
        sources = [field for field in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(field) is not None]
        if len(sources) != 1:
            if sources:
                text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            else:
                text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            found.append(fieldpath.invalid(where, dict(claim), text))
        for field in sources:
            found += checks.each(f"{where}.{field}", claim[field], names.is_dns1123_subdomain(claim[field]))
    return found


def _pod_resources(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    """Resources of the pod as a whole (KEP-2837): CPU, memory and huge pages, no less than its containers ask for."""
    resources = spec["resources"]
    found: list[FieldError] = []
    if resources.get("claims"):
        found.append(fieldpath.forbidden(f"{path}.claims", "claims cannot be set for Resources at pod-level"))
    found += requirements({part: resources.get(part) for part in ("limits", "requests")}, path)
    given = resources.get("requests") or {}
    asked = requests.pod_requests({"spec": {field: spec.get(field) for field in ("containers", "initContainers")}})
    for name, number in asked.items():
        if name not in given or name not in ("cpu", "memory"):
            continue
        amount, total = quantity.parse(given[name]), quantity.of_milli(number) if name == "cpu" else quantity.of(number)
        if total > amount:
            shown = quantity.Quantity(total.nanos, amount.format)
            text = f"must be greater than or equal to aggregate container requests of {shown}"
            found.append(fieldpath.invalid(f"{path}.requests[{name}]", str(amount), text))
    for position, container in enumerate(spec.get("containers") or ()):
        for name, limit in ((container.get("resources") or {}).get("limits") or {}).items():
            bound = (resources.get("limits") or {}).get(name)
            if bound is not None and quantity.parse(limit) > quantity.parse(bound):
                text = f"must be less than or equal to pod limits of {quantity.canonical(bound)}"
                where = f"{path}.containers[{position}][{name}].limits"
                found.append(fieldpath.invalid(where, quantity.canonical(limit), text))
    return found


def _names(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    for field in ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName", "schedulerName"):
        value = spec.get(field)
        if value and value != "default-scheduler":
            found += checks.each(f"{path}.{field}", value, names.is_dns1123_subdomain(value))
    for field in ("hostname", "subdomain"):
        value = spec.get(field)
        if value:
            found += checks.each(f"{path}.{field}", value, names.is_dns1123_label(value))
    if spec.get("preemptionPolicy") not in (None, "PreemptLowerPriority", "Never"):
        choices = ("PreemptLowerPriority", "Never")
        found.append(fieldpath.not_supported(f"{path}.preemptionPolicy", spec["preemptionPolicy"], choices))
    override = spec.get("hostnameOverride")
    if override:
        found += _hostname_override(override, spec, f"{path}.hostnameOverride")
    return found


def _hostname_override(name: str, spec: Mapping[str, Any], path: str) -> list[FieldError]:
    """KEP-4762: a whole name for the pod's kernel, and the pod's own."""
    found = checks.each(path, name, names.is_dns1123_subdomain(name))
    if len(name) > _MAX_KERNEL_NAME:
        found.append(fieldpath.too_long(path, _MAX_KERNEL_NAME))
    if spec.get("setHostnameAsFQDN"):
        found.append(fieldpath.forbidden(path, "may not be specified when `setHostnameAsFQDN` is true"))
    if spec.get("hostNetwork"):
        found.append(fieldpath.forbidden(path, "may not be specified when `hostNetwork` is true"))
    return found


def _numbers(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_INT32:
        text = names.range_error(1, _MAX_INT32)
        found.append(fieldpath.invalid(f"{path}.activeDeadlineSeconds", deadline, text))
    return found


def _dns(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    config, where = spec.get("dnsConfig"), f"{path}.dnsConfig"
    if spec.get("dnsPolicy") == "None":
        if config is None:
            return [fieldpath.required(where, "must provide `dnsConfig` when `dnsPolicy` is None")]
        if not config.get("nameservers"):
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            return [fieldpath.required(f"{where}.nameservers", text)]
    if config is None:
        return []
    found: list[FieldError] = []
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if len(servers) > 3:
        found.append(fieldpath.invalid(f"{where}.nameservers", servers, "must not have more than 3 nameservers"))
    for position, server in enumerate(servers):
        found += checks.each(f"{where}.nameservers[{position}]", server, names.is_ip(server))
    if len(searches) > 32:
        found.append(fieldpath.invalid(f"{where}.searches", searches, "must not have more than 32 search paths"))
    if len(" ".join(searches)) > _MAX_SEARCH_CHARACTERS:
        text = "must not have more than 2048 characters (including spaces) in the search list"
        found.append(fieldpath.invalid(f"{where}.searches", searches, text))
    for position, search in enumerate(searches):
        if search != ".":
            bare = search.removesuffix(".")
            found += checks.each(f"{where}.searches[{position}]", bare, names.is_dns1123_subdomain_with_underscore(bare))
    for position, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            found.append(fieldpath.required(f"{where}.options[{position}]", "must not be empty"))
    return found


def _host_aliases(aliases: list[dict[str, Any]], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    for position, alias in enumerate(aliases):
        address = alias.get("ip") or ""
        found += checks.each(f"{path}[{position}].ip", address, names.is_ip(address))
        for at, name in enumerate(alias.get("hostnames") or ()):
            found += checks.each(f"{path}[{position}].hostnames[{at}]", name, names.is_dns1123_subdomain(name))
    return found

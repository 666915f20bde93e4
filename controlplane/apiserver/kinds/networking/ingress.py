"""Ingresses: HTTP routes from outside to Services."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, NONE, age_of
from controlplane.apiserver.kinds.shared.load_balancer import check_load_balancer
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_SHOWN = 3
_CLASS_ANNOTATION = "kubernetes.io/ingress.class"


class IngressStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("networking.k8s.io", "v1", "Ingress"), "ingresses", "ingress", True, short_names=("ing",)
    )
    columns = (
        NAME,
        Column("Class", description="The name of the IngressClass resource that should be used for additional configuration"),
        Column("Hosts", description="Hosts that incoming requests are matched against before the ingress rule"),
        Column("Address", description="Address is a list containing ingress points for the load-balancer"),
        Column("Ports", description="Ports of TLS configurations that open"),
        AGE,
    )
    has_status = True
    has_generation = True

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {})

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = {"loadBalancer": {}}

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        found = _check_spec(obj["spec"])
        named, chosen = (obj["metadata"].get("annotations") or {}).get(_CLASS_ANNOTATION), obj["spec"].get("ingressClassName")
        if named is not None and chosen is not None and named != chosen:
            text = "must match `ingressClassName` when both are specified"
            found.append(fieldpath.invalid(f"annotations.{_CLASS_ANNOTATION}", named, text))
        return found

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return _check_spec(obj["spec"])

    def validate_status_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return check_load_balancer(obj.get("status") or {})

    def warnings(self, ctx: Context, obj: Object, old: Object | None) -> list[str]:
        held = obj["metadata"].get("annotations") or {}
        if old is None and _CLASS_ANNOTATION in held:
            return [f"annotation \"{_CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"]
        return []

    def row(self, obj: Object, now: datetime) -> list[Any]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        ingress = (status.get("loadBalancer") or {}).get("ingress") or ()
        address = ",".join(dict.fromkeys(str(one.get("ip") or one.get("hostname") or "") for one in ingress))
        ports = "80, 443" if spec.get("tls") else "80"
        return [
            obj["metadata"]["name"],
            spec.get("ingressClassName") or NONE,
            _hosts(spec.get("rules") or ()),
            address,
            ports,
            age_of(obj, now),
        ]


def _hosts(rules: Any) -> str:
    hosts = [str(rule["host"]) for rule in rules if rule.get("host")]
    if not hosts:
        return "*"
    shown = ",".join(hosts[:_SHOWN])
    return f"{shown} + {len(hosts) - _SHOWN} more..." if len(hosts) > _SHOWN else shown


def _check_host(host: str, path: str) -> list[FieldError]:
    if not names.is_ip(host):
        return [fieldpath.invalid(path, host, "must be a DNS name, not an IP address")]
    return checks.each(path, host, names.is_wildcard_subdomain(host) if "*" in host else names.is_dns1123_subdomain(host))


def _check_rule(rule: Mapping[str, Any], path: str) -> list[FieldError]:
    found = _check_host(rule["host"], f"{path}.host") if rule.get("host") else []
    http = rule.get("http")
    if http is None:
        return found
    if not http.get("paths"):
        found.append(fieldpath.required(f"{path}.http.paths"))
    for position, entry in enumerate(http.get("paths") or ()):
        where = f"{path}.http.paths[{position}]"
        kind, text = entry.get("pathType"), entry.get("path") or ""
        if kind is None:
            found.append(fieldpath.required(f"{where}.pathType", "pathType must be specified"))
        elif kind not in _PATH_TYPES:
            found.append(fieldpath.not_supported(f"{where}.pathType", kind, _PATH_TYPES))
        if kind in ("Exact", "Prefix"):
            found += _check_path(text, f"{where}.path")
        elif text and not text.startswith("/"):
            found.append(fieldpath.invalid(f"{where}.path", text, "must be an absolute path"))
        found += _check_backend(entry.get("backend") or {}, f"{where}.backend")
    return found


def _check_path(text: str, path: str) -> list[FieldError]:
    if not text.startswith("/"):
        return [fieldpath.invalid(path, text, "must be an absolute path")]
    found = [
        fieldpath.invalid(path, text, f"must not contain '{bad}'") for bad in ("//", "/./", "/../", "%2f", "%2F") if bad in text
    ]
    return found + [fieldpath.invalid(path, text, f"cannot end with '{bad}'") for bad in ("/..", "/.") if text.endswith(bad)]


def _check_backend(backend: Mapping[str, Any], path: str) -> list[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        return [fieldpath.invalid(path, "", "cannot set both resource and service backends")]
    if resource is not None:
        return _check_resource(resource, f"{path}.resource")
    if service is None:
        return [fieldpath.invalid(path, "", "resource or service backend is required")]
    name, port = service.get("name") or "", service.get("port") or {}
    if name:
        found = checks.each(f"{path}.service.name", name, names.is_dns1035_label(name))
    else:
        found = [fieldpath.required(f"{path}.service.name")]
    number, label = port.get("number") or 0, port.get("name") or ""
    if number and label:
        return [*found, fieldpath.invalid(path, "", "cannot set both port name & port number")]
    if not number and not label:
        return [*found, fieldpath.required(path, "port name or number is required")]
    if label:
        return found + checks.each(f"{path}.service.port.name", label, names.is_port_name(label))
    return found + checks.each(f"{path}.service.port.number", number, names.is_port_number(number))


def _check_resource(resource: Mapping[str, Any], path: str) -> list[FieldError]:
    """A reference to some object of the same namespace."""
    group = resource.get("apiGroup")
    found = [] if group is None else checks.each(f"{path}.apiGroup", group, names.is_dns1123_subdomain(group))
    for field in ("kind", "name"):
        value = resource.get(field) or ""
        if value:
            found += checks.each(f"{path}.{field}", value, names.is_path_segment(value))
        else:
            found.append(fieldpath.required(f"{path}.{field}", f"{field} is required"))
    return found


def _check_spec(spec: Mapping[str, Any]) -> list[FieldError]:
    found: list[FieldError] = []
    if not spec.get("rules") and spec.get("defaultBackend") is None:
        found.append(fieldpath.invalid("spec", spec.get("rules") or [], "either `defaultBackend` or `rules` must be specified"))
    if spec.get("defaultBackend") is not None:
        found += _check_backend(spec["defaultBackend"], "spec.defaultBackend")
    for position, rule in enumerate(spec.get("rules") or ()):
        found += _check_rule(rule, f"spec.rules[{position}]")
    for position, entry in enumerate(spec.get("tls") or ()):
        for at, host in enumerate(entry.get("hosts") or ()):
            found += _check_host(host, f"spec.tls[{position}].hosts[{at}]")
        secret = entry.get("secretName")
        if secret:
            found += checks.each(f"spec.tls[{position}].secretName", secret, names.is_dns1123_subdomain(secret))
    if spec.get("ingressClassName") is not None:
        problems = names.is_dns1123_subdomain(spec["ingressClassName"])
        found += checks.each("spec.ingressClassName", spec["ingressClassName"], problems)
    return found

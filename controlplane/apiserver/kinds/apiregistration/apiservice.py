"""APIServices: which group versions there are and who answers for them. One without a Service is this server itself.

Every version that is served has one (``poststart_requests``); ``aggregation`` passes requests on to the Services of others.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersion, GroupVersionKind
from apimachinery.meta import condition_status, set_condition
from controlplane.apiserver.kinds.apiregistration.priorities import priority_of
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

GROUP = "apiregistration.k8s.io"
AUTOMANAGED = "kube-aggregator.kubernetes.io/automanaged"
_BUNDLE_WITH_SKIP = "may not be true if caBundle is present"


class APIServiceStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind(GROUP, "v1", "APIService"), "apiservices", "apiservice", False, categories=("api-extensions",)
    )
    columns = (
        NAME,
        Column("Service", description="The reference to the service that hosts this API endpoint."),
        Column("Available", description="Whether this service is available."),
        AGE,
    )
    has_status = True
    name_is_valid = staticmethod(names.is_path_segment)

    def default(self, obj: Object) -> None:
        service = obj.setdefault("spec", {}).get("service")
        if service is not None and service.get("port") is None:
            service["port"] = 443

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = {}
        if obj["spec"].get("service") is None:
            text = "Local APIServices are always available"
            set_condition(obj, "Available", "True", reason="Local", message=text, now=ctx.now)

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        group, version, name = spec.get("group") or "", spec.get("version") or "", obj["metadata"].get("name") or ""
        found: list[FieldError] = []
        if name != f"{version}.{group}":
            text = f'must be `spec.version+"."+spec.group`: "{version}.{group}"'
            found.append(fieldpath.invalid("metadata.name", name, text))
        if not group and version != "v1":
            found.append(fieldpath.required("spec.group", "only v1 may have an empty group and it better be legacy kube"))
        elif group:
            found += checks.each("spec.group", group, names.is_dns1123_subdomain(group))
        found += checks.each("spec.version", version, names.is_dns1035_label(version))
        for field, limit in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
            value = spec.get(field) or 0
            if not 0 < value <= limit:
                found.append(fieldpath.invalid(f"spec.{field}", value, f"must be positive and less than {limit}"))
        return found + _check_service(spec)

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self.validate(ctx, obj)

    def row(self, obj: Object, now: datetime) -> list[Any]:
        service = (obj.get("spec") or {}).get("service")
        where = f"{service.get('namespace') or ''}/{service.get('name') or ''}" if service else "Local"
        return [obj["metadata"]["name"], where, _availability(obj), age_of(obj, now)]


def _check_service(spec: Object) -> list[FieldError]:
    service, bundle, skip = spec.get("service"), spec.get("caBundle"), spec.get("insecureSkipTLSVerify")
    found: list[FieldError] = []
    if service is None:
        if bundle:
            found.append(fieldpath.invalid("spec.caBundle", f"{len(bundle)} bytes", "local APIServices may not have a caBundle"))
        if skip:
            text = "local APIServices may not have insecureSkipTLSVerify"
            found.append(fieldpath.invalid("spec.insecureSkipTLSVerify", True, text))
        return found
    found += [fieldpath.required(f"spec.service.{field}") for field in ("namespace", "name") if not service.get(field)]
    port = service.get("port")
    if port is not None and not 1 <= port <= 65535:
        text = "port is not valid: must be between 1 and 65535, inclusive"
        found.append(fieldpath.invalid("spec.service.port", port, text))
    if skip and bundle:
        found.append(fieldpath.invalid("spec.insecureSkipTLSVerify", True, _BUNDLE_WITH_SKIP))
    return found


def _availability(obj: Object) -> str:
    status = condition_status(obj, "Available")
    if status == "True":
        return "True"
    held = (obj.get("status") or {}).get("conditions") or ()
    reason = next((one.get("reason") or "" for one in held if one.get("type") == "Available"), "")
    return f"{status} ({reason})" if held else "Unknown"


def local_services(served: Iterable[GroupVersion]) -> list[Object]:
    """One for each version that this server answers for, but for that of APIServices, which nobody else can take over."""
    return [local(version, *priority_of(version), "onstart") for version in sorted(set(served)) if version.group != GROUP]


def local(served: GroupVersion, group_priority: int, version_priority: int, managed: str) -> Object:
    """``managed`` is how long it is looked after: ``onstart``, or ``true`` for always."""
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "APIService",
        "metadata": {"name": f"{served.version}.{served.group}", "labels": {AUTOMANAGED: managed}},
        "spec": {
            **({"group": served.group} if served.group else {}),
            "version": served.version,
            "groupPriorityMinimum": group_priority,
            "versionPriority": version_priority,
        },
    }


def managed(obj: Object) -> str:
    """Whether it is ours to change: ``onstart``, ``true``, or empty for one that somebody has made theirs."""
    label = (obj["metadata"].get("labels") or {}).get(AUTOMANAGED) or ""
    return label if label in ("onstart", "true") else ""

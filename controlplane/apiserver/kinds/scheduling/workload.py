"""Workloads: the groups of pods that one application is made of. Behind ``GenericWorkload``; nothing here acts on them yet."""

from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.scheduling import scheduling_policy
from controlplane.apiserver.kinds.scheduling.scheduling_policy import GROUP, VERSION
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import DEFAULT, default_row
from controlplane.apiserver.registry.strategy import Context, Object, ResourceInfo, Strategy

_TEMPLATES_MAX = 8


class WorkloadStrategy(Strategy):
    info = ResourceInfo(GroupVersionKind(GROUP, VERSION, "Workload"), "workloads", "workload", True)
    columns = DEFAULT
    gates = ("GenericWorkload",)
    has_generation = True

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {})

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        templates = spec.get("podGroupTemplates") or ()
        found = [] if templates else [fieldpath.required("spec.podGroupTemplates", "must have at least one item")]
        if len(templates) > _TEMPLATES_MAX:
            found.append(fieldpath.too_many("spec.podGroupTemplates", len(templates), _TEMPLATES_MAX))
        taken: set[str] = set()
        for position, template in enumerate(templates):
            where, name = f"spec.podGroupTemplates[{position}]", template.get("name") or ""
            if not name:
                found.append(fieldpath.required(f"{where}.name"))
            elif name in taken:
                found.append(fieldpath.duplicate(where, name))
            else:
                found += checks.each(f"{where}.name", name, names.is_dns1123_label(name))
            taken.add(name)
            found += scheduling_policy.check_group(template, where)
        return found + _check_controller(spec.get("controllerRef"), "spec.controllerRef")

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        before = old.get("spec") or {}
        found = checks.immutable(obj["spec"].get("podGroupTemplates"), before.get("podGroupTemplates"), "spec.podGroupTemplates")
        if before.get("controllerRef") is not None:
            return found + checks.immutable(obj["spec"].get("controllerRef"), before["controllerRef"], "spec.controllerRef")
        return found + _check_controller(obj["spec"].get("controllerRef"), "spec.controllerRef")

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return default_row(obj)


def _check_controller(reference: Object | None, path: str) -> list[FieldError]:
    if reference is None:
        return []
    group = reference.get("apiGroup") or ""
    found = checks.each(f"{path}.apiGroup", group, names.is_dns1123_subdomain(group)) if group else []
    for field in ("kind", "name"):
        value = reference.get(field) or ""
        problems = names.is_path_segment(value) if value else []
        found += checks.each(f"{path}.{field}", value, problems) if value else [fieldpath.required(f"{path}.{field}")]
    return found

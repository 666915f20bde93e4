"""PodGroups: pods that are scheduled together. Behind ``GenericWorkload``; the scheduler here places each pod by itself."""

from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from component.featuregates import Gates
from controlplane.apiserver.kinds.scheduling import scheduling_policy
from controlplane.apiserver.kinds.scheduling.scheduling_policy import GROUP, VERSION
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import DEFAULT, default_row
from controlplane.apiserver.registry.strategy import Context, Object, ResourceInfo, Strategy


class PodGroupStrategy(Strategy):
    info = ResourceInfo(GroupVersionKind(GROUP, VERSION, "PodGroup"), "podgroups", "podgroup", True)
    columns = DEFAULT
    gates = ("GenericWorkload",)
    has_status = True
    has_generation = True

    def __init__(self, features: Gates) -> None:
        self._disruptions = features.enabled("WorkloadAwarePreemption")

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if self._disruptions:
            spec.setdefault("disruptionMode", "Pod")

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = {}

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        found = scheduling_policy.check_group(spec, "spec")
        reference = spec.get("podGroupTemplateRef")
        return found if reference is None else found + _check_reference(reference, "spec.podGroupTemplateRef")

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        before = old.get("spec") or {}
        fields = sorted({*obj["spec"], *before})
        return [
            error for field in fields for error in checks.immutable(obj["spec"].get(field), before.get(field), f"spec.{field}")
        ]

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return default_row(obj)


def _check_reference(reference: Object, path: str) -> list[FieldError]:
    found = scheduling_policy.exactly_one(reference, ("workload",), path)
    workload = reference.get("workload")
    if workload is None:
        return found
    for field, rule in (("workloadName", names.is_dns1123_subdomain), ("podGroupTemplateName", names.is_dns1123_label)):
        where, name = f"{path}.workload.{field}", workload.get(field) or ""
        found += checks.each(where, name, rule(name)) if name else [fieldpath.required(where)]
    return found

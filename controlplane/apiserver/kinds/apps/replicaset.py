"""ReplicaSets: a number of equal Pods."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.core.pod_template import default_template, name_warning, template_warnings, validate_template
from controlplane.apiserver.kinds.shared import checks, workload
from controlplane.apiserver.kinds.shared.columns import (
    AGE,
    CONTAINERS,
    IMAGES,
    NAME,
    SELECTOR,
    age_of,
    selector_text,
    template_cells,
)
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy


class ReplicaSetStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("apps", "v1", "ReplicaSet"), "replicasets", "replicaset", True, short_names=("rs",), categories=("all",)
    )
    columns = (
        NAME,
        Column("Desired", type="integer", description="The number of desired replicas."),
        Column("Current", type="integer", description="The most recently observed number of replicas."),
        Column("Ready", type="integer", description="The number of ready replicas."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    )
    has_status = True
    has_scale = True
    has_generation = True
    selectable_names = frozenset({"status.replicas"})

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if spec.get("replicas") is None:
            spec["replicas"] = 1
        default_template(spec.setdefault("template", {}))

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = {"replicas": 0}

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        return _check_spec(obj["spec"])

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        found = _check_spec(obj["spec"])
        return found + checks.immutable(obj["spec"].get("selector"), old["spec"].get("selector"), "spec.selector")

    def validate_status_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return _check_status(obj.get("status") or {})

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        return {"status.replicas": str((obj.get("status") or {}).get("replicas") or 0)}

    def warnings(self, ctx: Context, obj: Object, old: Object | None) -> list[str]:
        named = name_warning(obj["metadata"]["name"]) if old is None else []
        return named + template_warnings(obj["spec"].get("template") or {}, "spec.template")

    def row(self, obj: Object, now: datetime) -> list[Any]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        containers, images = template_cells(spec.get("template") or {})
        return [
            obj["metadata"]["name"],
            spec.get("replicas") or 0,
            status.get("replicas") or 0,
            status.get("readyReplicas") or 0,
            age_of(obj, now),
            containers,
            images,
            selector_text(spec.get("selector")),
        ]


def _check_spec(spec: Mapping[str, Any]) -> list[FieldError]:
    template = spec["template"]
    found = checks.not_negative(spec.get("replicas"), "spec.replicas")
    found += checks.not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    found += workload.selector_and_labels(spec)
    return found + validate_template(template, "spec.template") + workload.always_restarts(template)


def _check_status(status: Mapping[str, Any]) -> list[FieldError]:
    found: list[FieldError] = []
    total = status.get("replicas") or 0
    for field in ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"):
        found += checks.not_negative(status.get(field), f"status.{field}")
    for field in ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"):
        value = status.get(field) or 0
        if value > total:
            found.append(fieldpath.invalid(f"status.{field}", value, "cannot be greater than status.replicas"))
    ready, available = status.get("readyReplicas") or 0, status.get("availableReplicas") or 0
    if available > ready:
        found.append(fieldpath.invalid("status.availableReplicas", available, "cannot be greater than readyReplicas"))
    return found

"""Deployments: declarative updates of Pods through ReplicaSets."""

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

_STRATEGIES = ("Recreate", "RollingUpdate")


class DeploymentStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("apps", "v1", "Deployment"),
        "deployments",
        "deployment",
        True,
        short_names=("deploy",),
        categories=("all",),
    )
    columns = (
        NAME,
        Column("Ready", description="Number of the pod with ready state"),
        Column("Up-to-date", description="Number of pods that have the desired template."),
        Column("Available", description="Number of pods that have been ready for at least minReadySeconds."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    )
    has_status = True
    has_scale = True
    has_generation = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if spec.get("replicas") is None:
            spec["replicas"] = 1
        strategy = spec.get("strategy")
        if strategy is None:
            strategy = spec["strategy"] = {}
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.get("rollingUpdate")
            if rolling is None:
                rolling = strategy["rollingUpdate"] = {}
            for field in ("maxUnavailable", "maxSurge"):
                if rolling.get(field) is None:
                    rolling[field] = "25%"
        if spec.get("revisionHistoryLimit") is None:
            spec["revisionHistoryLimit"] = 10
        if spec.get("progressDeadlineSeconds") is None:
            spec["progressDeadlineSeconds"] = 600
        default_template(spec.setdefault("template", {}))

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = {}

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        return _check_spec(obj["spec"])

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        found = _check_spec(obj["spec"])
        return found + checks.immutable(obj["spec"].get("selector"), old["spec"].get("selector"), "spec.selector")

    def validate_status_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return _check_status(obj.get("status") or {})

    def warnings(self, ctx: Context, obj: Object, old: Object | None) -> list[str]:
        named = name_warning(obj["metadata"]["name"]) if old is None else []
        return named + template_warnings(obj["spec"].get("template") or {}, "spec.template")

    def row(self, obj: Object, now: datetime) -> list[Any]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        containers, images = template_cells(spec.get("template") or {})
        return [
            obj["metadata"]["name"],
            f"{status.get('readyReplicas') or 0}/{spec.get('replicas') or 0}",
            status.get("updatedReplicas") or 0,
            status.get("availableReplicas") or 0,
            age_of(obj, now),
            containers,
            images,
            selector_text(spec.get("selector")),
        ]


def _check_spec(spec: Mapping[str, Any]) -> list[FieldError]:
    template = spec.get("template") or {}
    found = checks.not_negative(spec.get("replicas"), "spec.replicas")
    found += workload.selector_and_labels(spec)
    found += validate_template(template, "spec.template") + workload.always_restarts(template)
    found += _check_strategy(spec.get("strategy") or {}, "spec.strategy")
    for field in ("minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"):
        found += checks.not_negative(spec.get(field), f"spec.{field}")
    deadline, least = spec.get("progressDeadlineSeconds"), spec.get("minReadySeconds") or 0
    if deadline is not None and deadline <= least:
        found.append(fieldpath.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return found


def _check_strategy(strategy: Mapping[str, Any], path: str) -> list[FieldError]:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate":
        text = "may not be specified when strategy `type` is 'Recreate'"
        return [] if rolling is None else [fieldpath.forbidden(f"{path}.rollingUpdate", text)]
    if kind != "RollingUpdate":
        return [fieldpath.not_supported(path, dict(strategy), _STRATEGIES)]
    where = f"{path}.rollingUpdate"
    if rolling is None:
        return [fieldpath.required(where, "this should be defaulted and never be nil")]
    down, up = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    found = workload.number_or_percent(down, f"{where}.maxUnavailable")
    found += workload.number_or_percent(up, f"{where}.maxSurge")
    if workload.is_zero(down) and workload.is_zero(up):
        found.append(fieldpath.invalid(f"{where}.maxUnavailable", down, "may not be 0 when `maxSurge` is 0"))
    return found + workload.at_most_100_percent(down, f"{where}.maxUnavailable")


def _check_status(status: Mapping[str, Any]) -> list[FieldError]:
    found: list[FieldError] = []
    total = status.get("replicas") or 0
    for field in (
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
    ):
        found += checks.not_negative(status.get(field), f"status.{field}")
    for field in ("updatedReplicas", "readyReplicas", "availableReplicas"):
        value = status.get(field) or 0
        if value > total:
            found.append(fieldpath.invalid(f"status.{field}", value, "cannot be greater than status.replicas"))
    ready, available = status.get("readyReplicas") or 0, status.get("availableReplicas") or 0
    if available > ready:
        found.append(fieldpath.invalid("status.availableReplicas", available, "cannot be greater than readyReplicas"))
    return found

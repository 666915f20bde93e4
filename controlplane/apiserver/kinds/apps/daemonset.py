"""DaemonSets: a Pod on every node that fits."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from apimachinery.meta import annotation, set_annotation
from controlplane.apiserver.kinds.core.pod_template import default_template, name_warning, template_warnings, validate_template
from controlplane.apiserver.kinds.shared import checks, workload
from controlplane.apiserver.kinds.shared.columns import (
    AGE,
    CONTAINERS,
    IMAGES,
    NAME,
    SELECTOR,
    age_of,
    map_text,
    selector_text,
    template_cells,
)
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_STRATEGIES = ("OnDelete", "RollingUpdate")
_COUNTS = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled", "numberAvailable")
_GENERATION = "deprecated.daemonset.template.generation"
_ALWAYS_SHOWN = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady")


class DaemonSetStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("apps", "v1", "DaemonSet"), "daemonsets", "daemonset", True, short_names=("ds",), categories=("all",)
    )
    columns = (
        NAME,
        Column("Desired", type="integer", description="Nodes that should run the daemon pod."),
        Column("Current", type="integer", description="Nodes that run at least one daemon pod."),
        Column("Ready", type="integer", description="Nodes whose daemon pod is ready."),
        Column("Up-to-date", type="integer", description="Nodes that run the newest daemon pod."),
        Column("Available", type="integer", description="Nodes whose daemon pod is available."),
        Column("Node Selector", description="Labels of the nodes that should run the daemon pod."),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    )
    has_status = True
    has_generation = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        strategy = spec.setdefault("updateStrategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            if rolling.get("maxUnavailable") is None:
                rolling["maxUnavailable"] = 1
            if rolling.get("maxSurge") is None:
                rolling["maxSurge"] = 0
        if spec.get("revisionHistoryLimit") is None:
            spec["revisionHistoryLimit"] = 10
        default_template(spec.setdefault("template", {}))

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = dict.fromkeys(_ALWAYS_SHOWN, 0)
        set_annotation(obj, _GENERATION, "1")

    def prepare_for_update(self, ctx: Context, obj: Object, old: Object) -> None:
        """The old counter of templates, which clients still read, is the server's alone."""
        text = annotation(old, _GENERATION) or "1"
        if obj["spec"].get("template") != old["spec"].get("template"):
            text = str(int(text) + 1) if text.isdecimal() else "1"
        set_annotation(obj, _GENERATION, text)

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        template = spec["template"]
        found = workload.selector_and_labels(spec, "daemonset")
        found += validate_template(template, "spec.template") + workload.always_restarts(template, "DaemonSet")
        for field in ("minReadySeconds", "revisionHistoryLimit"):
            found += checks.not_negative(spec.get(field), f"spec.{field}")
        return found + _check_strategy(spec["updateStrategy"], "spec.updateStrategy")

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        new, held = obj["spec"].get("selector"), old["spec"].get("selector")
        return self.validate(ctx, obj) + checks.immutable(new, held, "spec.selector")

    def validate_status_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        status = obj.get("status") or {}
        found: list[FieldError] = []
        for field in (*_COUNTS, "numberMisscheduled", "observedGeneration", "numberUnavailable"):
            found += checks.not_negative(status.get(field), f"status.{field}")
        return found

    def warnings(self, ctx: Context, obj: Object, old: Object | None) -> list[str]:
        named = name_warning(obj["metadata"]["name"]) if old is None else []
        return named + template_warnings(obj["spec"].get("template") or {}, "spec.template")

    def row(self, obj: Object, now: datetime) -> list[Any]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        template = spec.get("template") or {}
        return [
            obj["metadata"]["name"],
            *(status.get(field) or 0 for field in _COUNTS),
            map_text((template.get("spec") or {}).get("nodeSelector")),
            age_of(obj, now),
            *template_cells(template),
            selector_text(spec.get("selector")),
        ]


def _check_strategy(strategy: Mapping[str, Any], path: str) -> list[FieldError]:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "OnDelete":
        return []
    if kind != "RollingUpdate":
        return [fieldpath.not_supported(path, dict(strategy), _STRATEGIES)]
    where = f"{path}.rollingUpdate"
    if rolling is None:
        return [fieldpath.required(where)]
    down, up = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    found: list[FieldError] = []
    for field, value in (("maxUnavailable", down), ("maxSurge", up)):
        found += workload.number_or_percent(value, f"{where}.{field}")
        found += workload.at_most_100_percent(value, f"{where}.{field}")
    if workload.is_zero(down) and workload.is_zero(up):
        found.append(fieldpath.required(f"{where}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    elif not workload.is_zero(down) and not workload.is_zero(up):
        found.append(fieldpath.invalid(f"{where}.maxSurge", up, "may not be set when maxUnavailable is non-zero"))
    return found

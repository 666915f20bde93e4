"""HorizontalPodAutoscalers (autoscaling/v2): replicas that follow metrics."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from component.featuregates import Gates
from component.features import DEFAULTS
from controlplane.apiserver.kinds.autoscaling.metrics import SOURCES, check_metric, check_reference, check_rules
from controlplane.apiserver.kinds.shared.amounts import canonical_amount
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, NONE, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_SHOWN = 2
_UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}],
}
_DOWN = {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}


class HorizontalPodAutoscalerStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler"),
        "horizontalpodautoscalers",
        "horizontalpodautoscaler",
        True,
        short_names=("hpa",),
        categories=("all",),
    )
    columns = (
        NAME,
        Column("Reference", description="What is scaled."),
        Column("Targets", description="Current and wanted values of the metrics."),
        Column("MinPods", description="The least number of replicas."),
        Column("MaxPods", description="The greatest number of replicas."),
        Column("Replicas", description="The current number of replicas."),
        AGE,
    )
    has_status = True

    def __init__(self, features: Gates = DEFAULTS) -> None:
        self._to_zero = features.enabled("HPAScaleToZero")

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if spec.get("minReplicas") is None:
            spec["minReplicas"] = 1
        if not spec.get("metrics"):
            target = {"type": "Utilization", "averageUtilization": 80}
            spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
        for metric in spec["metrics"]:
            wanted = _source(metric).get("target") or {}
            for field in ("value", "averageValue"):
                if wanted.get(field) is not None:
                    wanted[field] = canonical_amount(wanted[field])
        behavior = spec.get("behavior")
        if behavior is not None:
            behavior["scaleUp"] = _merged(behavior.get("scaleUp"), _UP)
            behavior["scaleDown"] = _merged(behavior.get("scaleDown"), _DOWN)

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = {"desiredReplicas": 0, "currentMetrics": None}

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
        found: list[FieldError] = []
        bound = 0 if self._to_zero else 1
        if least is not None and least < 1:
            if least < bound:
                found.append(fieldpath.invalid("spec.minReplicas", least, f"must be greater than or equal to {bound}"))
            if least == 0 and not any(metric.get("type") in ("Object", "External") for metric in spec.get("metrics") or ()):
                text = "must specify at least one Object or External metric to support scaling to zero replicas"
                found.append(fieldpath.forbidden("spec.metrics", text))
        if most < 1:
            found.append(fieldpath.invalid("spec.maxReplicas", most, "must be greater than 0"))
        if least is not None and most < least:
            found.append(fieldpath.invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
        found += check_reference(spec.get("scaleTargetRef") or {}, "spec.scaleTargetRef")
        for position, metric in enumerate(spec.get("metrics") or ()):
            found += check_metric(metric, f"spec.metrics[{position}]")
        for direction in ("scaleUp", "scaleDown"):
            found += check_rules((spec.get("behavior") or {}).get(direction), f"spec.behavior.{direction}")
        return found

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self.validate(ctx, obj)

    def row(self, obj: Object, now: datetime) -> list[Any]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        reference = spec.get("scaleTargetRef") or {}
        return [
            obj["metadata"]["name"],
            f"{reference.get('kind', '')}/{reference.get('name', '')}",
            _targets(spec.get("metrics") or (), status.get("currentMetrics") or ()),
            str(spec.get("minReplicas", "<unset>")),
            spec.get("maxReplicas") or 0,
            status.get("currentReplicas") or 0,
            age_of(obj, now),
        ]


def _merged(rules: Object | None, defaults: Mapping[str, Any]) -> Object:
    merged = {key: value for key, value in (rules or {}).items() if value is not None}
    for field, value in defaults.items():
        if field == "policies":
            merged.setdefault(field, [dict(policy) for policy in value])
        else:
            merged.setdefault(field, value)
    return merged


def _source(metric: Mapping[str, Any]) -> Object:
    return metric.get(SOURCES.get(metric.get("type") or "", "")) or {}


def _targets(metrics: Any, current: Any) -> str:
    texts = [
        _metric_text(metric, current[position] if position < len(current) else {}) for position, metric in enumerate(metrics)
    ]
    if not texts:
        return NONE
    shown = ", ".join(texts[:_SHOWN])
    return f"{shown} + {len(texts) - _SHOWN} more..." if len(texts) > _SHOWN else shown


def _metric_text(metric: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    kind, source = metric.get("type"), _source(metric)
    target, current = source.get("target") or {}, _source({"type": kind, **status}).get("current") or {}
    label = f"{source.get('name')}: " if kind in ("Resource", "ContainerResource") else ""
    if target.get("averageUtilization") is not None:
        seen = current.get("averageUtilization")
        return f"{label}{'<unknown>' if seen is None else f'{seen}%'}/{target['averageUtilization']}%"
    for field, suffix in (("averageValue", " (avg)" if kind in ("Object", "External") else ""), ("value", "")):
        if target.get(field) is not None:
            return f"{label}{current.get(field, '<unknown>')}/{target[field]}{suffix}"
    return f"{label}<unknown>/<auto>"

"""HorizontalPodAutoscalers as autoscaling/v1: what ``kubectl autoscale`` writes. Stored and judged as v2."""

import json
from datetime import datetime
from typing import Any

from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.autoscaling.metrics_v1 import cpu_utilization, metric_from_v1, metric_to_v1
from controlplane.apiserver.registry.strategy import Context, Object, ResourceInfo, Strategy

_PREFIX = "autoscaling.alpha.kubernetes.io/"
_METRICS, _BEHAVIOR = _PREFIX + "metrics", _PREFIX + "behavior"
_CURRENT, _CONDITIONS = _PREFIX + "current-metrics", _PREFIX + "conditions"


class HorizontalPodAutoscalerV1Strategy(Strategy):
    """A view of ``stored``, the strategy of v2."""

    same_fields = False
    info = ResourceInfo(
        GroupVersionKind("autoscaling", "v1", "HorizontalPodAutoscaler"),
        "horizontalpodautoscalers",
        "horizontalpodautoscaler",
        True,
        short_names=("hpa",),
        categories=("all",),
    )
    has_status = True

    def __init__(self, stored: Strategy) -> None:
        self._stored = stored
        self.stored_as = stored.info
        self.columns = stored.columns

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if spec.get("minReplicas") is None:
            spec["minReplicas"] = 1

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = {"currentReplicas": 0, "desiredReplicas": 0}

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        return self._stored.validate(ctx, self.to_stored(obj))

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self._stored.validate_update(ctx, self.to_stored(obj), self.to_stored(old))

    def to_stored(self, obj: Object) -> Object:
        spec, annotations = dict(obj.get("spec") or {}), dict(obj["metadata"].get("annotations") or {})
        cpu = spec.pop("targetCPUUtilizationPercentage", None)
        metrics = [metric_from_v1(metric) for metric in _loaded(annotations.pop(_METRICS, None), list) or ()]
        if cpu is not None:
            target = {"type": "Utilization", "averageUtilization": cpu}
            metrics.insert(0, {"type": "Resource", "resource": {"name": "cpu", "target": target}})
        if metrics:
            spec["metrics"] = metrics
        behavior = _loaded(annotations.pop(_BEHAVIOR, None), dict)
        if behavior:
            spec["behavior"] = behavior
        status = dict(obj.get("status") or {})
        used = status.pop("currentCPUUtilizationPercentage", None)
        if used is not None:  # says more only where no annotation does
            current = {"averageUtilization": used}
            status["currentMetrics"] = [{"type": "Resource", "resource": {"name": "cpu", "current": current}}]
        for field, key in (("currentMetrics", _CURRENT), ("conditions", _CONDITIONS)):
            found = _loaded(annotations.pop(key, None), list)
            if found:
                status[field] = found
        converted = {**obj, "apiVersion": "autoscaling/v2", "spec": spec, "metadata": _with(obj["metadata"], annotations)}
        if "status" in obj or status:
            converted["status"] = status
        self._stored.default(converted)
        return converted

    def from_stored(self, obj: Object) -> Object:
        spec, annotations = dict(obj.get("spec") or {}), dict(obj["metadata"].get("annotations") or {})
        others = []
        for metric in spec.pop("metrics", None) or ():
            cpu = cpu_utilization(metric)
            if cpu is not None and "targetCPUUtilizationPercentage" not in spec:
                spec["targetCPUUtilizationPercentage"] = cpu
            else:
                others.append(metric_to_v1(metric))
        if others:
            annotations[_METRICS] = _dumped(others)
        if spec.get("behavior"):
            annotations[_BEHAVIOR] = _dumped(spec["behavior"])
        spec.pop("behavior", None)
        status = dict(obj.get("status") or {})
        used = _cpu_used(status)
        if used is not None:
            status["currentCPUUtilizationPercentage"] = used
        for field, key in (("currentMetrics", _CURRENT), ("conditions", _CONDITIONS)):
            found = status.pop(field, None)
            if found:
                annotations[key] = _dumped(found)
        status.setdefault("currentReplicas", 0)
        status.setdefault("desiredReplicas", 0)
        metadata = _with(obj["metadata"], annotations)
        return {**obj, "apiVersion": "autoscaling/v1", "spec": spec, "metadata": metadata, "status": status}

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return self._stored.row(self.to_stored(obj), now)


def _cpu_used(status: Object) -> int | None:
    for metric in status.get("currentMetrics") or ():
        resource = metric.get("resource") or {}
        if metric.get("type") == "Resource" and resource.get("name") == "cpu":
            used: int | None = (resource.get("current") or {}).get("averageUtilization")
            return used
    return None


def _with(metadata: Object, annotations: Object) -> Object:
    kept = {key: value for key, value in metadata.items() if key != "annotations"}
    return {**kept, "annotations": annotations} if annotations else kept


def _dumped(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _loaded(text: str | None, wanted: type) -> Any:
    """An annotation's JSON; what is no such JSON is dropped, as upstream's conversion does."""
    try:
        found: Any = json.loads(text) if text else None
    except ValueError:
        return None
    if wanted is list:
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else None
    return found if isinstance(found, dict) else None

"""Metrics of autoscaling/v2 in the annotations by which autoscaling/v1 carries what its fields cannot say. Pure."""

from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]


def _plain(**values: Any) -> Object:
    return {key: value for key, value in values.items() if value is not None}


def metric_to_v1(metric: Mapping[str, Any]) -> Object:
    """One MetricSpec as v1 writes it: flat targets, metric names beside them."""
    kind = metric.get("type")
    if kind in ("Resource", "ContainerResource"):
        field = "resource" if kind == "Resource" else "containerResource"
        source = metric.get(field) or {}
        target = source.get("target") or {}
        flat = _plain(
            name=source.get("name"),
            container=source.get("container"),
            targetAverageUtilization=target.get("averageUtilization"),
            targetAverageValue=target.get("averageValue"),
        )
        return {"type": kind, field: flat}
    field = {"Pods": "pods", "Object": "object", "External": "external"}.get(str(kind), "")
    source = metric.get(field) or {}
    target, named = source.get("target") or {}, source.get("metric") or {}
    if kind == "Pods":
        average = target.get("averageValue")
        flat = _plain(metricName=named.get("name"), targetAverageValue=average, selector=named.get("selector"))
    elif kind == "Object":
        flat = _plain(
            target=source.get("describedObject"),
            metricName=named.get("name"),
            targetValue=target.get("value") or "0",
            selector=named.get("selector"),
            averageValue=target.get("averageValue"),
        )
    else:
        flat = _plain(
            metricName=named.get("name"),
            metricSelector=named.get("selector"),
            targetValue=target.get("value"),
            targetAverageValue=target.get("averageValue"),
        )
    return {"type": kind, field: flat}


def metric_from_v1(metric: Mapping[str, Any]) -> Object:
    """The inverse of :func:`metric_to_v1`."""
    kind = metric.get("type")
    if kind in ("Resource", "ContainerResource"):
        field = "resource" if kind == "Resource" else "containerResource"
        flat = metric.get(field) or {}
        target = _target(None, flat.get("targetAverageValue"), flat.get("targetAverageUtilization"))
        return {"type": kind, field: _plain(name=flat.get("name"), container=flat.get("container"), target=target)}
    field = {"Pods": "pods", "Object": "object", "External": "external"}.get(str(kind), "")
    flat = metric.get(field) or {}
    named = _plain(name=flat.get("metricName"), selector=flat.get("selector") or flat.get("metricSelector"))
    if kind == "Object":
        value = None if flat.get("averageValue") else flat.get("targetValue")
        target = _target(value, flat.get("averageValue"), None)
        return {"type": kind, field: _plain(metric=named, describedObject=flat.get("target"), target=target)}
    target = _target(flat.get("targetValue"), flat.get("targetAverageValue"), None)
    return {"type": kind, field: {"metric": named, "target": target}}


def _target(value: Any, average: Any, utilization: Any) -> Object:
    kind = "Utilization" if utilization is not None else "AverageValue" if average is not None else "Value"
    return _plain(type=kind, value=value, averageValue=average, averageUtilization=utilization)


def cpu_utilization(metric: Mapping[str, Any]) -> int | None:
    """The one kind of metric that v1 has a field for."""
    resource = metric.get("resource") or {}
    if metric.get("type") != "Resource" or resource.get("name") != "cpu":
        return None
    target: int | None = (resource.get("target") or {}).get("averageUtilization")
    return target

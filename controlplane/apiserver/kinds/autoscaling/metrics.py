"""Validation of what a HorizontalPodAutoscaler follows, and how fast it may: ``validateMetricSpec``, ``validateScalingRules``."""

from collections.abc import Mapping
from typing import Any

from apimachinery import fieldpath, names, quantity
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.amounts import container_resource_name

Object = Mapping[str, Any]

# In upstream's order: of two sources in one metric, the first is the one that is looked at.
SOURCES = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
_TYPES = sorted(SOURCES)
_LONGEST_WINDOW, _LONGEST_PERIOD = 3600, 1800


def check_reference(reference: Object, path: str) -> list[FieldError]:
    """A ``CrossVersionObjectReference``."""
    found: list[FieldError] = []
    for field in ("kind", "name"):
        value = reference.get(field) or ""
        found += (
            checks.each(f"{path}.{field}", value, names.is_path_segment(value))
            if value
            else [fieldpath.required(f"{path}.{field}")]
        )
    return found


def check_metric(metric: Object, path: str) -> list[FieldError]:
    kind = metric.get("type") or ""
    found = [] if kind else [fieldpath.required(f"{path}.type", "must specify a metric source type")]
    if kind not in SOURCES:
        found += [fieldpath.not_supported(f"{path}.type", kind, _TYPES)] * 2  # upstream finds it twice
    given = [field for field in SOURCES.values() if metric.get(field) is not None]
    if given:
        found += _check_source(given[0], metric[given[0]], f"{path}.{given[0]}")
    expected = SOURCES.get(kind, "")
    if expected and expected not in given:
        found.append(fieldpath.required(f"{path}.{expected}", "must populate information for the given metric source"))
    if len(given) != 1:
        others = (field for field in given if field != expected)
        found += [fieldpath.forbidden(f"{path}.{field}", "must populate the given metric source only") for field in others]
    return found


def _check_source(field: str, source: Object, path: str) -> list[FieldError]:
    target, where = source.get("target") or {}, f"{path}.target"
    found: list[FieldError] = []
    if field == "object":
        found += check_reference(source.get("describedObject") or {}, f"{path}.describedObject")
    if field in ("object", "external", "pods"):
        name = (source.get("metric") or {}).get("name") or ""
        place = f"{path}.metric.name"
        found += (
            checks.each(place, name, names.is_path_segment(name))
            if name
            else [fieldpath.required(place, "must specify a metric name")]
        )
    else:
        found += _check_resource(field, source, path)
    found += _check_target(target, where)
    given = {name for name in ("value", "averageValue", "averageUtilization") if target.get(name) is not None}
    return found + _check_choice(field, given, where)


def _check_resource(field: str, source: Object, path: str) -> list[FieldError]:
    name, container = source.get("name") or "", source.get("container") or ""
    found = [] if name else [fieldpath.required(f"{path}.name", "must specify a resource name")]
    if field == "containerResource":
        if name:
            found += container_resource_name(name, f"{path}.name")
        if container:
            found += checks.each(f"{path}.container", container, names.is_dns1123_label(container))
        else:
            found.append(fieldpath.required(f"{path}.container", "must specify a container"))
    return found


def _check_target(target: Object, path: str) -> list[FieldError]:
    kind = target.get("type") or ""
    found = [] if kind else [fieldpath.required(f"{path}.type", "must specify a metric target type")]
    if kind not in ("Utilization", "Value", "AverageValue"):
        found.append(fieldpath.invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue"))
    amounts = {field: quantity.parse(target[field]) for field in ("value", "averageValue") if target.get(field) is not None}
    wrong = {field: str(amount) for field, amount in amounts.items() if amount <= quantity.ZERO}
    found += [fieldpath.invalid(f"{path}.{field}", text, "must be positive") for field, text in wrong.items()]
    share = target.get("averageUtilization")
    if share is not None and share < 1:
        found.append(fieldpath.invalid(f"{path}.averageUtilization", share, "must be greater than 0"))
    return found


def _check_choice(field: str, given: set[str], path: str) -> list[FieldError]:
    """Which of the ways to say how much is wanted fit the source."""
    if field == "pods":
        text = "must specify a positive target averageValue"
        return [] if "averageValue" in given else [fieldpath.required(f"{path}.averageValue", text)]
    if field in ("object", "external"):
        if not given & {"value", "averageValue"}:
            either = "a target value for metric or a per-pod target" if field == "external" else "a target value or averageValue"
            return [fieldpath.required(f"{path}.averageValue", f"must set either {either}")]
        if field == "external" and {"value", "averageValue"} <= given:
            text = "may not set both a target value for metric and a per-pod target"
            return [fieldpath.forbidden(f"{path}.value", text)]
        return []
    if not given & {"averageUtilization", "averageValue"}:
        text = "must set either a target raw value or a target utilization"
        return [fieldpath.required(f"{path}.averageUtilization", text)]
    if {"averageUtilization", "averageValue"} <= given:
        return [fieldpath.forbidden(f"{path}.averageValue", "may not set both a target raw value and a target utilization")]
    return []


def check_rules(rules: Object | None, path: str) -> list[FieldError]:
    """``behavior.scaleUp`` or ``scaleDown``."""
    if rules is None:
        return []
    found: list[FieldError] = []
    window, where = rules.get("stabilizationWindowSeconds"), f"{path}.stabilizationWindowSeconds"
    if window is not None and window < 0:
        found.append(fieldpath.invalid(where, window, "must be greater than or equal to zero"))
    if window is not None and window > _LONGEST_WINDOW:
        found.append(fieldpath.invalid(where, window, f"must be less than or equal to {_LONGEST_WINDOW}"))
    choice = rules.get("selectPolicy")
    if choice is not None and choice not in ("Disabled", "Max", "Min"):
        found.append(fieldpath.not_supported(f"{path}.selectPolicy", choice, ("Disabled", "Max", "Min")))
    tolerance = rules.get("tolerance")
    if tolerance is not None and quantity.parse(tolerance) < quantity.ZERO:
        text = "must be greater than or equal to 0"
        found.append(fieldpath.invalid(f"{path}.tolerance", quantity.canonical(tolerance), text))
    policies = rules.get("policies") or ()
    if not policies:
        found.append(fieldpath.required(f"{path}.policies", "must specify at least one Policy"))
    for position, policy in enumerate(policies):
        found += _check_policy(policy, f"{path}.policies[{position}]")
    return found


def _check_policy(policy: Object, path: str) -> list[FieldError]:
    kind, value, period = policy.get("type") or "", policy.get("value") or 0, policy.get("periodSeconds") or 0
    found: list[FieldError] = []
    if kind not in ("Percent", "Pods"):
        found.append(fieldpath.not_supported(f"{path}.type", kind, ("Percent", "Pods")))
    for field, number in (("value", value), ("periodSeconds", period)):
        if number <= 0:
            found.append(fieldpath.invalid(f"{path}.{field}", number, "must be greater than zero"))
    if period > _LONGEST_PERIOD:
        found.append(fieldpath.invalid(f"{path}.periodSeconds", period, f"must be less than or equal to {_LONGEST_PERIOD}"))
    return found

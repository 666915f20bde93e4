"""LimitRanges: bounds and defaults for what pods and containers of a namespace ask for."""

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names, quantity
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from apimachinery.quantity import Quantity
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.amounts import (
    canonical_amounts,
    container_resource_name,
    may_overcommit,
    resource_name,
)
from controlplane.apiserver.kinds.shared.columns import NAME
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_TYPES = ("Container", "PersistentVolumeClaim", "Pod")
_PARTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


class LimitRangeStrategy(Strategy):
    info = ResourceInfo(GroupVersionKind("", "v1", "LimitRange"), "limitranges", "limitrange", True, short_names=("limits",))
    columns = (NAME, Column("Created At", type="date", description="When the limit range was created."))

    def default(self, obj: Object) -> None:
        for item in obj.setdefault("spec", {}).get("limits") or ():
            for part in _PARTS:
                if item.get(part):
                    canonical_amounts(item[part])
            if item.get("type") == "Container":
                _fill(item)

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        if not obj["metadata"].get("name"):
            obj["metadata"]["name"] = str(uuid.uuid4())  # the one kind that names itself

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        found: list[FieldError] = []
        taken: set[str] = set()
        for position, item in enumerate(obj["spec"].get("limits") or ()):
            path, kind = f"spec.limits[{position}]", item.get("type") or ""
            found += _check_type(kind, f"{path}.type")
            if kind in taken:
                found.append(fieldpath.duplicate(f"{path}.type", kind))
            taken.add(kind)
            found += _check_item(item, kind, path)
        return found

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self.validate(ctx, obj)

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp", "")]


def _fill(item: Object) -> None:
    """The maximum is the default limit; the default limit, else the minimum, the default request."""
    for part, sources in (("default", ("max",)), ("defaultRequest", ("default", "min"))):
        values = dict(item.get(part) or {})
        for source in sources:
            for name, amount in (item.get(source) or {}).items():
                values.setdefault(name, amount)
        if values:
            item[part] = values


def _check_type(kind: str, path: str) -> list[FieldError]:
    found = checks.each(path, kind, names.is_qualified_name(kind))
    if not found and "/" not in kind and kind not in _TYPES:
        found.append(fieldpath.invalid(path, kind, "must be a standard limit type or fully qualified"))
    return found


def _check_item(item: Mapping[str, Any], kind: str, path: str) -> list[FieldError]:
    parts: dict[str, Mapping[str, Any]] = {part: item.get(part) or {} for part in _PARTS}
    found: list[FieldError] = []
    if kind == "Pod":
        text = "may not be specified when `type` is 'Pod'"
        given = [part for part in ("default", "defaultRequest") if parts[part]]
        found += [fieldpath.forbidden(f"{path}.{part}", text) for part in given]
        parts = {**parts, "default": {}, "defaultRequest": {}}
    name_rule = container_resource_name if kind in ("Pod", "Container") else resource_name
    for part, amounts in parts.items():
        for name in amounts:
            found += name_rule(name, f"{path}.{part}[{name}]")
    if kind == "PersistentVolumeClaim" and not ("storage" in parts["min"] or "storage" in parts["max"]):
        text = "either minimum or maximum storage value is required, but neither was provided"
        found.append(fieldpath.required(f"{path}.limits", text))
    for name in dict.fromkeys(name for amounts in parts.values() for name in amounts):
        held = {part: quantity.parse(amounts[name]) for part, amounts in parts.items() if name in amounts}
        found += _check_order(held, name, path) + _check_ratio(held, name, path)
        both = {"default", "defaultRequest"} <= held.keys()
        if both and not may_overcommit(name) and held["default"] != held["defaultRequest"]:
            text = f"default value {held['default']} must equal to defaultRequest value {held['defaultRequest']} in {name}"
            found.append(fieldpath.invalid(f"{path}.defaultRequest[{name}]", str(held["defaultRequest"]), text))
    return found


# (the smaller one, the larger one, the one that the error names and shows)
_ORDER = (
    ("min", "max", "min", "min"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest"),
    ("min", "default", "default", "min"),
    ("default", "max", "default", "max"),
)
_WORDS = {"min": "min value", "max": "max value", "default": "default value", "defaultRequest": "default request value"}


def _check_order(held: Mapping[str, Quantity], name: str, path: str) -> list[FieldError]:
    found: list[FieldError] = []
    for low, high, named, shown in _ORDER:
        if low in held and high in held and held[low] > held[high]:
            word = "default limit value" if (low, high) == ("defaultRequest", "default") else _WORDS[high]
            text = f"{_WORDS[low]} {held[low]} is greater than {word} {held[high]}"
            found.append(fieldpath.invalid(f"{path}.{named}[{name}]", str(held[shown]), text))
    return found


def _check_ratio(held: Mapping[str, Quantity], name: str, path: str) -> list[FieldError]:
    ratio = held.get("maxLimitRequestRatio")
    if ratio is None:
        return []
    where = f"{path}.maxLimitRequestRatio[{name}]"
    found: list[FieldError] = []
    if ratio < quantity.of(1):
        found.append(fieldpath.invalid(where, str(ratio), f"ratio {ratio} is less than 1"))
    if "min" in held and "max" in held and held["min"]:
        widest = held["max"].nanos / held["min"].nanos
        if ratio.nanos / quantity.of(1).nanos > widest:
            found.append(fieldpath.invalid(where, str(ratio), f"ratio {ratio} is greater than max/min = {widest:f}"))
    return found

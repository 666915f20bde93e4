"""LimitRanges: bounds and defaults for what pods and containers of a namespace ask for."""

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names, quantity
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.amounts import canonical_amounts, resource_value
from controlplane.apiserver.kinds.shared.columns import NAME
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

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
            found += checks.each(f"{path}.type", kind, names.is_qualified_name(kind))
            if kind in taken:
                found.append(fieldpath.duplicate(f"{path}.type", kind))
            taken.add(kind)
            if kind == "Pod":
                for part in ("default", "defaultRequest"):
                    if item.get(part):
                        text = "may not be specified when `type` is 'Pod'"
                        found.append(fieldpath.forbidden(f"{path}.{part}", text))
            found += _check_order(item, path)
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


def _check_order(item: Mapping[str, Any], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    parts = {part: item.get(part) or {} for part in _PARTS}
    for part, amounts in parts.items():
        for name, amount in amounts.items():
            found += resource_value(name, amount, f"{path}.{part}[{name}]")
    order = (
        ("min", "max"),
        ("min", "defaultRequest"),
        ("defaultRequest", "max"),
        ("defaultRequest", "default"),
        ("default", "max"),
    )
    words = {"min": "min", "max": "max", "default": "default", "defaultRequest": "default request"}
    for low, high in order:
        for name, amount in parts[low].items():
            limit = parts[high].get(name)
            if limit is not None and quantity.parse(amount) > quantity.parse(limit):
                text = f"{words[low]} value {amount} is greater than {words[high]} value {limit}"
                found.append(fieldpath.invalid(f"{path}.{low}[{name}]", amount, text))
    return found

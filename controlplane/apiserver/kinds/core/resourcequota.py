"""ResourceQuotas: what the objects of a namespace may use together."""

from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.amounts import canonical_amounts, resource_value
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_SCOPES = (
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
)


class ResourceQuotaStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("", "v1", "ResourceQuota"), "resourcequotas", "resourcequota", True, short_names=("quota",)
    )
    columns = (
        NAME,
        Column("Request", description="Used and allowed amounts of everything but limits."),
        Column("Limit", description="Used and allowed amounts of limits."),
        AGE,
    )
    has_status = True
    returns_deleted = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if spec.get("hard"):
            canonical_amounts(spec["hard"])
        for part in ("hard", "used"):
            if (obj.get("status") or {}).get(part):
                canonical_amounts(obj["status"][part])

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = {}

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        found: list[FieldError] = []
        for name, amount in (spec.get("hard") or {}).items():
            path = f"spec.hard[{name}]"
            found += checks.each(path, name, names.is_qualified_name(name)) + resource_value(name, amount, path)
        for scope in spec.get("scopes") or ():
            if scope not in _SCOPES:
                found.append(fieldpath.invalid("spec.scopes", spec["scopes"], "unsupported scope"))
        return found

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        new, held = obj["spec"].get("scopes") or [], (old.get("spec") or {}).get("scopes") or []
        found = self.validate(ctx, obj)
        if sorted(new) != sorted(held):
            found.append(fieldpath.invalid("spec.scopes", new, "field is immutable"))
        return found

    def row(self, obj: Object, now: datetime) -> list[Any]:
        status = obj.get("status") or {}
        used = status.get("used") or {}
        parts: tuple[list[str], list[str]] = ([], [])
        for name, amount in sorted((status.get("hard") or {}).items()):
            parts[name.startswith("limits")].append(f"{name}: {used.get(name, '0')}/{amount}")
        return [obj["metadata"]["name"], ", ".join(parts[0]), ", ".join(parts[1]), age_of(obj, now)]

"""ResourceQuotas: what the objects of a namespace may use together."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared.amounts import canonical_amounts, is_quota_resource, quota_resource_name, resource_value
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

_COMPUTE_SCOPES = frozenset({"NotBestEffort", "Terminating", "NotTerminating", "PriorityClass", "CrossNamespacePodAffinity"})
_EXISTING = frozenset({"BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"})
_EXISTS_ONLY = (
    "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
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
            found += quota_resource_name(name, path) + resource_value(name, amount, path)
        scopes = spec.get("scopes") or []
        for scope in scopes:
            found += _check_scope(scope, spec, "spec.scopes", "spec.scopes", scopes)
        found += _check_conflicts(scopes, scopes, "spec.scopes")
        for expression in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
            found += _check_expression(expression, spec)
        named = [one.get("scopeName") for one in (spec.get("scopeSelector") or {}).get("matchExpressions") or ()]
        return found + _check_conflicts(named, scopes, "spec.scopeSelector.matchExpressions")

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


def _check_scope(scope: str, spec: Object, path: str, whole: str, shown: Any) -> list[FieldError]:
    """A scope that is known, and that counts each of Kubernetes' own resources that the quota bounds."""
    found = [] if scope in _SCOPES else [fieldpath.invalid(path, shown, "unsupported scope")]
    return found + _check_counted(scope, spec, whole, shown)


def _check_counted(scope: str, spec: Object, path: str, shown: Any) -> list[FieldError]:
    uncounted = [name for name in spec.get("hard") or {} if is_quota_resource(name) and not _counts(scope, name)]
    return [fieldpath.invalid(path, shown, "unsupported scope applied to resource") for _ in uncounted]


def _counts(scope: str, resource: str) -> bool:
    if scope == "BestEffort":
        return resource == "pods"
    if scope in _COMPUTE_SCOPES:
        return resource == "pods" or resource.rpartition(".")[2] in ("cpu", "memory", "ephemeral-storage")
    return scope != "VolumeAttributesClass" or resource in ("persistentvolumeclaims", "requests.storage")


def _check_conflicts(scopes: Sequence[str | None], shown: Any, path: str) -> list[FieldError]:
    pairs = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
    both = [pair for pair in pairs if set(pair) <= set(scopes)]
    return [fieldpath.invalid(path, list(shown), "conflicting scopes") for _ in both]


def _check_expression(expression: Object, spec: Object) -> list[FieldError]:
    """One entry of ``scopeSelector``; upstream does not say which."""
    path = "spec.scopeSelector.matchExpressions"
    scope, operator, values = (expression.get(field) or "" for field in ("scopeName", "operator", "values"))
    found = [] if scope in _SCOPES else [fieldpath.invalid(f"{path}.scopeName", scope, "unsupported scope")]
    found += _check_counted(scope, spec, path, spec["scopeSelector"])
    if scope in _EXISTING and operator != "Exists":
        found.append(fieldpath.invalid(f"{path}.operator", operator, _EXISTS_ONLY))
    if operator in ("In", "NotIn"):
        if not values:
            text = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            found.append(fieldpath.required(f"{path}.values", text))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            found.append(fieldpath.invalid(f"{path}.values", values, text))
    else:
        found.append(fieldpath.invalid(f"{path}.operator", operator, "not a valid selector operator"))
    return found

"""Leases: heartbeats of nodes and locks of leader election."""

from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_STRATEGIES = ("OldestEmulationVersion",)


def check_strategy(strategy: str, path: str) -> list[FieldError]:
    """How the next holder is chosen (KEP-4355): Kubernetes' own way, or somebody's with a domain."""
    if "/" in strategy:
        return checks.each(f"{path}.strategy", strategy, names.is_qualified_name(strategy))  # upstream's path
    return [] if strategy in _STRATEGIES else [fieldpath.not_supported(f"{path}.strategy", strategy, _STRATEGIES)]


class LeaseStrategy(Strategy):
    info = ResourceInfo(GroupVersionKind("coordination.k8s.io", "v1", "Lease"), "leases", "lease", True)
    columns = (NAME, Column("Holder", description="The identity of the holder of a current lease."), AGE)
    allow_create_on_update = True
    allow_unconditional_update = False

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {})

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        spec = obj.get("spec") or {}
        found = checks.not_negative(spec.get("leaseTransitions"), "spec.leaseTransitions")
        duration = spec.get("leaseDurationSeconds")
        if duration is not None and duration <= 0:
            found.append(fieldpath.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        if spec.get("strategy"):
            found += check_strategy(spec["strategy"], "spec.strategy")
        elif spec.get("preferredHolder"):
            text = "may only be specified when `strategy` is defined"
            found.append(fieldpath.forbidden("spec.preferredHolder", text))
        return found

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self.validate(ctx, obj)

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return [obj["metadata"]["name"], (obj.get("spec") or {}).get("holderIdentity") or "", age_of(obj, now)]

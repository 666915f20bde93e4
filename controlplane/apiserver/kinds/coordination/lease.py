"""Leases: heartbeats of nodes and locks of leader election."""

from datetime import datetime
from typing import Any

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy


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
        return found

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self.validate(ctx, obj)

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return [obj["metadata"]["name"], (obj.get("spec") or {}).get("holderIdentity") or "", age_of(obj, now)]

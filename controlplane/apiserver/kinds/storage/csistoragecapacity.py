"""CSIStorageCapacities: how much a driver can still provision, of which class and for which nodes."""

from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names, quantity
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.amounts import canonical_amount
from controlplane.apiserver.kinds.shared.columns import NAME
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_AMOUNTS = ("capacity", "maximumVolumeSize")


class CSIStorageCapacityStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("storage.k8s.io", "v1", "CSIStorageCapacity"), "csistoragecapacities", "csistoragecapacity", True
    )
    columns = (
        NAME,
        Column("StorageClassName", description="The class of the volumes."),
        Column("Capacity", description="How much is left."),
    )

    def default(self, obj: Object) -> None:
        for field in _AMOUNTS:
            if obj.get(field) is not None:
                obj[field] = canonical_amount(obj[field])

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        found: list[FieldError] = []
        if obj.get("nodeTopology") is not None:
            found += checks.label_selector(obj["nodeTopology"], "nodeTopology")
        name = obj.get("storageClassName") or ""
        found += checks.each("storageClassName", name, names.is_dns1123_subdomain(name))
        for field in _AMOUNTS:
            amount = obj.get(field)
            if amount is not None and quantity.parse(amount) < quantity.ZERO:
                found.append(fieldpath.invalid(field, amount, checks.NOT_NEGATIVE))
        return found

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        found = self.validate(ctx, obj)
        found += checks.immutable(obj.get("nodeTopology"), old.get("nodeTopology"), "nodeTopology")
        return found + checks.immutable(obj.get("storageClassName"), old.get("storageClassName"), "storageClassName")

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return [obj["metadata"]["name"], obj.get("storageClassName") or "", obj.get("capacity") or "<unset>"]

"""CSINodes: the CSI drivers that run on a node."""

from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy


class CSINodeStrategy(Strategy):
    info = ResourceInfo(GroupVersionKind("storage.k8s.io", "v1", "CSINode"), "csinodes", "csinode", False)
    columns = (NAME, Column("Drivers", type="integer", description="Number of drivers registered on the node."), AGE)

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {}).setdefault("drivers", [])

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        found: list[FieldError] = []
        taken: set[str] = set()
        for position, driver in enumerate(obj["spec"].get("drivers") or ()):
            path, name = f"spec.drivers[{position}]", driver.get("name") or ""
            if not name:
                found.append(fieldpath.required(f"{path}.name"))
            else:
                found += checks.each(f"{path}.name", name, names.is_dns1123_subdomain(name.lower()))
            if name in taken:
                found.append(fieldpath.duplicate(f"{path}.name", name))
            taken.add(name)
            if not driver.get("nodeID"):
                found.append(fieldpath.required(f"{path}.nodeID"))
        return found

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self.validate(ctx, obj)

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return [obj["metadata"]["name"], len((obj.get("spec") or {}).get("drivers") or ()), age_of(obj, now)]

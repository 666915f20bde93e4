"""CSINodes: the CSI drivers that run on a node."""

from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_NAME_MAX, _NODE_ID_MAX = 63, 192


class CSINodeStrategy(Strategy):
    info = ResourceInfo(GroupVersionKind("storage.k8s.io", "v1", "CSINode"), "csinodes", "csinode", False)
    columns = (NAME, Column("Drivers", type="integer", description="Number of drivers registered on the node."), AGE)
    returns_deleted = True

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {}).setdefault("drivers", None)  # upstream shows ``drivers: null``

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        found: list[FieldError] = []
        taken: set[str] = set()
        for position, driver in enumerate(obj["spec"].get("drivers") or ()):
            path, name = f"spec.drivers[{position}]", driver.get("name") or ""
            found += _check_name(name, f"{path}.name")
            if name in taken:
                found.append(fieldpath.duplicate(f"{path}.name", name))
            taken.add(name)
            found += _check_driver(driver, path)
        return found

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        """Drivers come and go; what one has said of itself stays."""
        held = {driver.get("name"): driver for driver in (old.get("spec") or {}).get("drivers") or ()}
        found = self.validate(ctx, obj)
        for driver in obj["spec"].get("drivers") or ():
            found += checks.immutable(driver, held.get(driver.get("name"), driver), "CSINodeDriver")
        return found

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return [obj["metadata"]["name"], len((obj.get("spec") or {}).get("drivers") or ()), age_of(obj, now)]


def _check_name(name: str, path: str) -> list[FieldError]:
    found = [] if name else [fieldpath.required(path)]
    if len(name) > _NAME_MAX:
        found.append(fieldpath.too_long(path, _NAME_MAX))
    return found + checks.each(path, name, names.is_dns1123_subdomain(name.lower()))


def _check_driver(driver: Object, path: str) -> list[FieldError]:
    found: list[FieldError] = []
    node = driver.get("nodeID") or ""
    if not node:
        found.append(fieldpath.required(f"{path}.nodeID"))
    elif len(node) > _NODE_ID_MAX:
        found.append(fieldpath.invalid(f"{path}.nodeID", node, f"must be {_NODE_ID_MAX} characters or less"))
    keys = driver.get("topologyKeys") or ()
    for position, key in enumerate(keys):
        if not key:
            found.append(fieldpath.required(path))
        found += checks.each(path, list(keys), names.is_qualified_name(key))
        if key in keys[:position]:
            found.append(fieldpath.duplicate(path, key))
    return found + checks.not_negative((driver.get("allocatable") or {}).get("count"), f"{path}.allocatable.count")

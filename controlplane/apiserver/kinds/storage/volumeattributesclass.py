"""VolumeAttributesClasses: what a driver may change of a volume while it is used."""

from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_MAX_COUNT, _MAX_SIZE = 512, 256 * 1024


class VolumeAttributesClassStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("storage.k8s.io", "v1", "VolumeAttributesClass"),
        "volumeattributesclasses",
        "volumeattributesclass",
        False,
        short_names=("vac",),
    )
    columns = (NAME, Column("DriverName", description="The driver that knows the parameters."), AGE)
    returns_deleted = True

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        driver, parameters = obj.get("driverName") or "", obj.get("parameters") or {}
        found = [] if driver else [fieldpath.required("driverName", driver)]
        if driver:
            found += checks.each("driverName", driver, names.is_qualified_name(driver.lower()))
        if not parameters:
            found.append(fieldpath.required("parameters", "must contain at least one key/value pair"))
        if len(parameters) > _MAX_COUNT:
            found.append(fieldpath.too_long("parameters", _MAX_COUNT))
        if any(not key for key in parameters):
            found.append(fieldpath.invalid("parameters", "", "field can not be empty."))
        if sum(len(key) + len(value) for key, value in parameters.items()) > _MAX_SIZE:
            found.append(fieldpath.too_long("parameters", _MAX_SIZE))
        return found

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        changed = [field for field in ("driverName", "parameters") if (obj.get(field) or "") != (old.get(field) or "")]
        return [fieldpath.forbidden(field, f"updates to {field} are forbidden.") for field in changed]

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return [obj["metadata"]["name"], obj.get("driverName") or "", age_of(obj, now)]

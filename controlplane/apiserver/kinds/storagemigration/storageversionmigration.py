"""StorageVersionMigrations: the wish that all objects of a resource be written again. The storage-version-migrator does it."""

from datetime import datetime
from typing import Any

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from apimachinery.meta import condition_status
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import NAME
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_ENDS = ("Succeeded", "Failed")


class StorageVersionMigrationStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("storagemigration.k8s.io", "v1beta1", "StorageVersionMigration"),
        "storageversionmigrations",
        "storageversionmigration",
        False,
    )
    columns = (NAME, Column("Resource", description="Fully qualified resource to migrate"))
    has_status = True

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {}).setdefault("resource", {})

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = {}

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        resource = obj["spec"]["resource"].get("resource") or ""
        return [] if resource else [fieldpath.required("spec.resource.resource", "resource is required")]

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return checks.immutable(obj["spec"], old.get("spec"), "spec")

    def validate_status_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        found: list[FieldError] = []
        if all(condition_status(obj, end) == "True" for end in _ENDS):
            text = "Both success and failed conditions cannot be true at the same time"
            found.append(fieldpath.invalid("status.conditions", (obj.get("status") or {}).get("conditions"), text))
        for end in _ENDS:
            if condition_status(old, end) == "True" and condition_status(obj, end) != "True":
                text = f"{end} condition cannot be set to false once it is true"
                found.append(fieldpath.invalid("status.conditions", (obj.get("status") or {}).get("conditions"), text))
        return found

    def row(self, obj: Object, now: datetime) -> list[Any]:
        resource = (obj.get("spec") or {}).get("resource") or {}
        parts = (resource.get("resource"), resource.get("group"))
        return [obj["metadata"]["name"], ".".join(part for part in parts if part)]

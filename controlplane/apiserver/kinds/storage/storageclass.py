"""StorageClasses: kinds of volumes that can be provisioned."""

from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

DEFAULT_ANNOTATIONS = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")
_RECLAIM = ("Delete", "Retain")
_BINDING = ("Immediate", "WaitForFirstConsumer")


class StorageClassStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("storage.k8s.io", "v1", "StorageClass"), "storageclasses", "storageclass", False, short_names=("sc",)
    )
    columns = (
        NAME,
        Column("Provisioner", description="What makes volumes of this class."),
        Column("ReclaimPolicy", description="What becomes of a volume that is released."),
        Column("VolumeBindingMode", description="When volumes are made and bound."),
        Column("AllowVolumeExpansion", description="Whether volumes may grow."),
        AGE,
    )
    returns_deleted = True

    def default(self, obj: Object) -> None:
        if obj.get("reclaimPolicy") is None:
            obj["reclaimPolicy"] = "Delete"
        if obj.get("volumeBindingMode") is None:
            obj["volumeBindingMode"] = "Immediate"

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        provisioner = obj.get("provisioner") or ""
        if provisioner:
            found = checks.each("provisioner", provisioner, names.is_qualified_name(provisioner.lower()))
        else:
            found = [fieldpath.required("provisioner", provisioner)]
        found += checks.one_of(obj.get("reclaimPolicy"), _RECLAIM, "reclaimPolicy")
        return found + checks.one_of(obj.get("volumeBindingMode"), _BINDING, "volumeBindingMode")

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        changed = [field for field in ("parameters", "provisioner") if (obj.get(field) or {}) != (old.get(field) or {})]
        found = [fieldpath.forbidden(field, f"updates to {field} are forbidden.") for field in changed]
        if obj.get("reclaimPolicy") != old.get("reclaimPolicy"):
            found.append(fieldpath.forbidden("reclaimPolicy", "updates to reclaimPolicy are forbidden."))
        return found + checks.immutable(obj.get("volumeBindingMode"), old.get("volumeBindingMode"), "volumeBindingMode")

    def row(self, obj: Object, now: datetime) -> list[Any]:
        annotations = obj["metadata"].get("annotations") or {}
        default = any(annotations.get(key) == "true" for key in DEFAULT_ANNOTATIONS)
        return [
            obj["metadata"]["name"] + (" (default)" if default else ""),
            obj.get("provisioner") or "",
            obj.get("reclaimPolicy") or "Delete",
            obj.get("volumeBindingMode") or "Immediate",
            bool(obj.get("allowVolumeExpansion")),
            age_of(obj, now),
        ]

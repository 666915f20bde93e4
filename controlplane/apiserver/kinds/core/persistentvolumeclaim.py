"""PersistentVolumeClaims: what somebody asks of storage. Once made, a claim changes only in size and class of attributes."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apimachinery import fieldpath, quantity
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from apimachinery.meta import clone
from controlplane.apiserver.kinds.core.pod_template.warnings import claim_fractions
from controlplane.apiserver.kinds.shared import checks, storage
from controlplane.apiserver.kinds.shared.amounts import canonical_amounts, resource_value
from controlplane.apiserver.kinds.shared.claims import check_claim_spec
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, UNSET, age_of, wide
from controlplane.apiserver.kinds.shared.differences import change_text
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_IMMUTABLE = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"


class PersistentVolumeClaimStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("", "v1", "PersistentVolumeClaim"),
        "persistentvolumeclaims",
        "persistentvolumeclaim",
        True,
        short_names=("pvc",),
    )
    columns = (
        NAME,
        Column("Status", description="Pending, Bound or Lost."),
        Column("Volume", description="The volume that the claim is bound to."),
        Column("Capacity", description="How much the volume holds."),
        Column("Access Modes", description="Who may use the volume at once, and how."),
        Column("StorageClass", description="The class of storage asked for."),
        Column("VolumeAttributesClass", description="The class of attributes asked for."),
        AGE,
        wide("VolumeMode", "Whether the volume has a file system or is a bare device."),
    )
    has_status = True
    returns_deleted = True
    selectable_names = frozenset({"name"})

    def default(self, obj: Object) -> None:
        default_claim(obj)
        _copy_source(obj["spec"])

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = {"phase": "Pending"}

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        return check_claim_spec(obj["spec"], "spec")

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self.validate(ctx, obj) + _check_change(obj, old)

    def validate_status_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        found: list[FieldError] = []
        for name, amount in ((obj.get("status") or {}).get("capacity") or {}).items():
            found += resource_value(name, amount, f"status.capacity[{name}]")
        return found

    def warnings(self, ctx: Context, obj: Object, old: Object | None) -> list[str]:
        return [*storage.class_warning(obj), *claim_fractions(obj["spec"], "spec")]

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        return {"name": obj["metadata"]["name"]}

    def row(self, obj: Object, now: datetime) -> list[Any]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        volume = spec.get("volumeName") or ""
        return [
            obj["metadata"]["name"],
            "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase") or "",
            volume,
            (status.get("capacity") or {}).get(storage.STORAGE, "0") if volume else "",
            storage.access_modes_text(status.get("accessModes")) if volume else "",
            storage.class_of(obj),
            spec.get("volumeAttributesClassName") or UNSET,
            age_of(obj, now),
            spec.get("volumeMode") or UNSET,
        ]


def default_claim(claim: Object) -> None:
    """Of a claim by itself, and of those in templates."""
    spec = claim.setdefault("spec", {})
    if not spec.get("volumeMode"):
        spec["volumeMode"] = "Filesystem"
    resources = spec.setdefault("resources", {})
    for part in ("requests", "limits"):
        if resources.get(part):
            canonical_amounts(resources[part])
    status = claim.setdefault("status", {})
    status.setdefault("phase", "Pending")
    for part in ("capacity", "allocatedResources"):
        if status.get(part):
            canonical_amounts(status[part])


def _copy_source(spec: Object) -> None:
    """``dataSource`` and ``dataSourceRef`` say the same unless another namespace is named."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        spec["dataSourceRef"] = dict(source)
    elif reference is not None and source is None and not reference.get("namespace"):
        spec["dataSource"] = dict(reference)


def _check_change(obj: Object, old: Object) -> list[FieldError]:
    spec, held = obj["spec"], old["spec"]
    annotations = [(each["metadata"].get("annotations") or {}).get(storage.CLASS_ANNOTATION) for each in (obj, old)]
    found: list[FieldError] = []
    if annotations[0] != annotations[1] and not (annotations[0] is None and spec.get("storageClassName") == annotations[1]):
        found += checks.immutable(annotations[0], annotations[1], f"metadata.annotations[{storage.CLASS_ANNOTATION}]")
    allowed = _with_allowed_changes(obj, held, annotations[1])
    if allowed != held:
        found.append(fieldpath.forbidden("spec", _IMMUTABLE + change_text(held, allowed)))
    sizes = [quantity.parse(each.get("resources", {}).get("requests", {}).get(storage.STORAGE, "0")) for each in (spec, held)]
    reached = quantity.parse(((old.get("status") or {}).get("capacity") or {}).get(storage.STORAGE, "0"))
    if sizes[0] < sizes[1] and sizes[0] <= reached:
        found.append(fieldpath.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity"))
    return found + checks.immutable(spec.get("volumeMode"), held.get("volumeMode"), "volumeMode")


def _with_allowed_changes(obj: Object, held: Object, old_class: str | None) -> Object:
    """The new spec with every permitted change undone: it must then equal the old one."""
    spec: Object = clone(obj["spec"])
    restored = ["volumeAttributesClassName"]
    if not held.get("volumeName"):
        restored.append("volumeName")  # set once, by who binds
    if held.get("storageClassName") is None and old_class in (None, spec.get("storageClassName")):
        restored.append("storageClassName")  # filled in where there was none: from the annotation, or as the cluster's default
    for field in restored:
        if field in held:
            spec[field] = held[field]
        else:
            spec.pop(field, None)
    requests = (spec.get("resources") or {}).get("requests") or {}
    before = ((held.get("resources") or {}).get("requests") or {}).get(storage.STORAGE)
    if (obj.get("status") or {}).get("phase") == "Bound" and requests and before is not None:
        requests[storage.STORAGE] = before
    return spec

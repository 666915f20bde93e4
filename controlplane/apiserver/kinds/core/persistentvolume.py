"""PersistentVolumes: pieces of storage of the cluster, made by hand or by a provisioner."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from apimachinery.times import format_time
from controlplane.apiserver.kinds.core.pod_template.local_paths import no_backstep
from controlplane.apiserver.kinds.core.pod_template.scheduling import validate_node_selector
from controlplane.apiserver.kinds.core.pod_template.volume_defaults import default_volume
from controlplane.apiserver.kinds.core.pod_template.volumes import SOURCES, driver_name
from controlplane.apiserver.kinds.core.pod_template.warnings import old_labels_in_term
from controlplane.apiserver.kinds.shared import checks, storage
from controlplane.apiserver.kinds.shared.amounts import canonical_amounts
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, UNSET, age_of, wide
from controlplane.apiserver.kinds.shared.differences import change_text
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_RECYCLED = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."
_RECLAIM = ("Delete", "Recycle", "Retain")
_CSI_SECRETS = (
    *("controllerPublishSecretRef", "nodePublishSecretRef", "nodeStageSecretRef"),
    *("controllerExpandSecretRef", "nodeExpandSecretRef"),
)
# Everything else in a spec is the source.
_OWN = frozenset(
    {
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    }
)


class PersistentVolumeStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("", "v1", "PersistentVolume"), "persistentvolumes", "persistentvolume", False, short_names=("pv",)
    )
    columns = (
        NAME,
        Column("Capacity", description="How much the volume holds."),
        Column("Access Modes", description="Who may use the volume at once, and how."),
        Column("Reclaim Policy", description="What becomes of the volume when its claim is gone."),
        Column("Status", description="Available, Bound, Released or Failed."),
        Column("Claim", description="The claim that the volume is bound to."),
        Column("StorageClass", description="The class of storage that the volume belongs to."),
        Column("VolumeAttributesClass", description="The class of attributes that the volume has."),
        Column("Reason", description="Why the volume is in its state."),
        AGE,
        wide("VolumeMode", "Whether the volume has a file system or is a bare device."),
    )
    has_status = True
    returns_deleted = True
    selectable_names = frozenset({"name"})

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if not spec.get("persistentVolumeReclaimPolicy"):
            spec["persistentVolumeReclaimPolicy"] = "Retain"
        if spec.get("volumeMode") is None:
            spec["volumeMode"] = "Filesystem"
        if spec.get("capacity"):
            canonical_amounts(spec["capacity"])
        default_volume(spec)
        obj.setdefault("status", {}).setdefault("phase", "Pending")

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": format_time(ctx.now)}

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        found = storage.check_access_modes(spec, "spec", "") + _check_capacity(spec.get("capacity") or {})
        found += checks.one_of(spec.get("persistentVolumeReclaimPolicy"), _RECLAIM, "spec.persistentVolumeReclaimPolicy")
        return found + _check_affinity(spec) + _check_source(spec) + storage.check_classes(spec, "spec")

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        new, held = _source(obj["spec"]), _source(old["spec"])
        found = self.validate(ctx, obj)
        if _comparable(new, held) != held:
            text = "spec.persistentvolumesource is immutable after creation"
            found.append(fieldpath.forbidden("spec.persistentvolumesource", text + change_text(held, new)))
        found += checks.immutable(obj["spec"].get("volumeMode"), old["spec"].get("volumeMode"), "volumeMode")
        if old["spec"].get("nodeAffinity") is not None:
            found += checks.immutable(obj["spec"].get("nodeAffinity"), old["spec"]["nodeAffinity"], "spec.nodeAffinity")
        return found

    def prepare_for_status_update(self, ctx: Context, obj: Object, old: Object) -> None:
        status, held = obj.setdefault("status", {}), old.get("status") or {}
        unset = status.get("lastPhaseTransitionTime") in (None, held.get("lastPhaseTransitionTime"))
        if status.get("phase") != held.get("phase") and unset:
            status["lastPhaseTransitionTime"] = format_time(ctx.now)

    def warnings(self, ctx: Context, obj: Object, old: Object | None) -> list[str]:
        found = storage.class_warning(obj)
        if obj["spec"].get("persistentVolumeReclaimPolicy") == "Recycle":
            found.append(f"spec.persistentVolumeReclaimPolicy: {_RECYCLED}")
        required = (obj["spec"].get("nodeAffinity") or {}).get("required") or {}
        for position, term in enumerate(required.get("nodeSelectorTerms") or ()):
            found += old_labels_in_term(term, f"spec.nodeAffinity.required.nodeSelectorTerms[{position}]")
        return found

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        return {"name": obj["metadata"]["name"]}

    def row(self, obj: Object, now: datetime) -> list[Any]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        claim = spec.get("claimRef")
        return [
            obj["metadata"]["name"],
            (spec.get("capacity") or {}).get(storage.STORAGE, "0"),
            storage.access_modes_text(spec.get("accessModes")),
            spec.get("persistentVolumeReclaimPolicy") or "",
            "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase") or "",
            f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
            storage.class_of(obj),
            spec.get("volumeAttributesClassName") or UNSET,
            status.get("reason") or "",
            age_of(obj, now),
            spec.get("volumeMode") or UNSET,
        ]


def _source(spec: Mapping[str, Any]) -> Object:
    return {field: value for field, value in spec.items() if field not in _OWN}


def _comparable(new: Object, held: Object) -> Object:
    """The secrets that expanding needs may be filled in later."""
    csi = new.get("csi")
    if csi is None or held.get("csi") is None:
        return new
    late = {field for field in ("controllerExpandSecretRef", "nodeExpandSecretRef") if field not in held["csi"]}
    return {**new, "csi": {field: value for field, value in csi.items() if field not in late}}


def _check_capacity(capacity: Mapping[str, Any]) -> list[FieldError]:
    found = [] if capacity else [fieldpath.required("spec.capacity")]
    if set(capacity) != {storage.STORAGE}:
        found.append(fieldpath.not_supported("spec.capacity", dict(capacity), (storage.STORAGE,)))
    for name, amount in capacity.items():
        found += storage.check_size(amount, f"spec.capacity[{name}]")
    return found


def _check_affinity(spec: Mapping[str, Any]) -> list[FieldError]:
    affinity = spec.get("nodeAffinity")
    if affinity is None:
        return [fieldpath.required("spec.nodeAffinity", "Local volume requires node affinity")] if "local" in spec else []
    if affinity.get("required") is None:
        return [fieldpath.required("spec.nodeAffinity.required", "must specify required node constraints")]
    return validate_node_selector(affinity["required"], "spec.nodeAffinity.required")


def _check_source(spec: Mapping[str, Any]) -> list[FieldError]:
    source = _source(spec)
    if not source:
        return [fieldpath.required("spec", "must specify a volume type")]
    order = list(SOURCES)
    first, *more = sorted(source, key=lambda field: order.index(field) if field in order else len(order))
    found = [fieldpath.forbidden(f"spec.{field}", "may not specify more than 1 volume type") for field in more]
    if first == "local":
        path = source["local"].get("path") or ""
        return found + (no_backstep(path, "spec.local.path") if path else [fieldpath.required("spec.local.path")])
    if first == "csi":
        return found + _check_csi(source["csi"], "spec.csi")
    if first in SOURCES:
        found += SOURCES[first](source[first], f"spec.{first}")
    if first == "hostPath" and source[first].get("path") == "/" and spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        text = "may not be 'recycle' for a hostPath mount of '/'"
        found.append(fieldpath.forbidden("spec.persistentVolumeReclaimPolicy", text))
    return found


def _check_csi(source: Mapping[str, Any], path: str) -> list[FieldError]:
    found = driver_name(source.get("driver") or "", f"{path}.driver")
    if not source.get("volumeHandle"):
        found.append(fieldpath.required(f"{path}.volumeHandle"))
    for field in _CSI_SECRETS:
        secret = source.get(field)
        if secret is not None:
            missing = [part for part in ("name", "namespace") if not secret.get(part)]
            found += [fieldpath.required(f"{path}.{field}.{part}") for part in missing]
    return found


def check_inline_spec(spec: Mapping[str, Any], path: str) -> list[FieldError]:
    """The spec of a volume that is written into a VolumeAttachment: CSI, and nothing about claims."""
    nowhere = "may not be specified in the context of inline volumes"
    given = [field for field in ("claimRef", "capacity", "nodeAffinity", "storageClassName") if spec.get(field)]
    found = [fieldpath.forbidden(f"{path}.{field}", nowhere) for field in given]
    found += storage.check_access_modes(spec, path, "")
    if spec.get("csi") is None:
        found.append(fieldpath.required(f"{path}.csi", "has to be specified in the context of inline volumes"))
    else:
        found += _check_csi(spec["csi"], f"{path}.csi")
    if spec.get("persistentVolumeReclaimPolicy") not in (None, "", "Retain"):
        text = "may only be Retain in the context of inline volumes"
        found.append(fieldpath.forbidden(f"{path}.persistentVolumeReclaimPolicy", text))
    if spec.get("volumeMode") not in (None, "Filesystem"):
        text = "may not specify volumeMode other than Filesystem in the context of inline volumes"
        found.append(fieldpath.forbidden(f"{path}.volumeMode", text))
    return found

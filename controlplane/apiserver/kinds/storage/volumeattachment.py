"""VolumeAttachments: the wish that a volume be attached to a node, and what a CSI driver made of it."""

from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.core.persistentvolume import check_inline_spec
from controlplane.apiserver.kinds.core.pod_template.volumes import driver_name
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy


class VolumeAttachmentStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("storage.k8s.io", "v1", "VolumeAttachment"), "volumeattachments", "volumeattachment", False
    )
    columns = (
        NAME,
        Column("Attacher", format="name", description="The driver that must act."),
        Column("PV", description="The volume to attach."),
        Column("Node", description="The node to attach it to."),
        Column("Attached", type="boolean", description="Whether the volume is attached."),
        AGE,
    )
    returns_deleted = True
    has_status = True

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {}).setdefault("source", {})

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = {"attached": False}

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        attacher, node, source = spec.get("attacher") or "", spec.get("nodeName") or "", spec.get("source") or {}
        found = driver_name(attacher, "spec.attacher")
        inline, volume = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
        if inline is None and volume is None:
            text = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
            found.append(fieldpath.required("spec.source", text))
        elif inline is not None and volume is not None:
            text = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
            found.append(fieldpath.forbidden("spec.source", text))
        elif volume == "":
            found.append(fieldpath.required("spec.source.persistentVolumeName", "must specify non empty persistentVolumeName"))
        elif inline is not None:
            found += check_inline_spec(inline, "spec.source.inlineVolumeSpec")
        return found + checks.each("spec.nodeName", node, names.is_dns1123_subdomain(node))

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self.validate(ctx, obj) + checks.immutable(obj["spec"], old.get("spec"), "spec")

    def row(self, obj: Object, now: datetime) -> list[Any]:
        spec = obj.get("spec") or {}
        return [
            obj["metadata"]["name"],
            spec.get("attacher") or "",
            (spec.get("source") or {}).get("persistentVolumeName") or "",
            spec.get("nodeName") or "",
            bool((obj.get("status") or {}).get("attached")),
            age_of(obj, now),
        ]

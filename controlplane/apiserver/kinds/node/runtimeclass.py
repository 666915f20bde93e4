"""RuntimeClasses: which container runtime handler runs a pod."""

from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.core.pod_template.scheduling import validate_tolerations
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.amounts import canonical_amounts, requirements
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy


class RuntimeClassStrategy(Strategy):
    info = ResourceInfo(GroupVersionKind("node.k8s.io", "v1", "RuntimeClass"), "runtimeclasses", "runtimeclass", False)
    columns = (NAME, Column("Handler", description="The configuration of the container runtime that pods use."), AGE)

    def default(self, obj: Object) -> None:
        fixed = (obj.get("overhead") or {}).get("podFixed")
        if fixed:
            canonical_amounts(fixed)

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        handler = obj.get("handler") or ""
        found = checks.each("handler", handler, names.is_dns1123_label(handler))
        found += requirements({"limits": (obj.get("overhead") or {}).get("podFixed") or {}}, "overhead")
        scheduling = obj.get("scheduling") or {}
        found += checks.labels(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
        tolerations = scheduling.get("tolerations") or ()
        for position, toleration in enumerate(tolerations):
            if toleration in tolerations[:position]:
                found.append(fieldpath.duplicate(f"scheduling.tolerations[{position}]", toleration))
        return found + validate_tolerations(tolerations, "scheduling.tolerations.tolerations")  # upstream's path

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return checks.immutable(obj.get("handler"), old.get("handler"), "handler")

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return [obj["metadata"]["name"], obj.get("handler") or "", age_of(obj, now)]

"""ControllerRevisions: what StatefulSets and DaemonSets looked like before."""

from datetime import datetime
from typing import Any

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersion, GroupVersionKind
from apimachinery.meta import controller_of
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, NONE, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy


class ControllerRevisionStrategy(Strategy):
    info = ResourceInfo(GroupVersionKind("apps", "v1", "ControllerRevision"), "controllerrevisions", "controllerrevision", True)
    columns = (
        NAME,
        Column("Controller", description="Controller of the object"),
        Column("Revision", description="Revision indicates the revision of the state represented by Data."),
        AGE,
    )

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        found = checks.not_negative(obj.get("revision"), "revision")
        if obj.get("data") is None:
            found.append(fieldpath.required("data", "data is mandatory"))
        return found

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self.validate(ctx, obj) + checks.immutable(obj.get("data"), old.get("data"), "data")

    def row(self, obj: Object, now: datetime) -> list[Any]:
        owner = controller_of(obj)
        shown = NONE
        if owner:
            group = GroupVersion.parse(owner.get("apiVersion", "")).group
            kind = str(owner.get("kind", "")).lower()
            shown = f"{kind}.{group}/{owner.get('name', '')}" if group else f"{kind}/{owner.get('name', '')}"
        return [obj["metadata"]["name"], shown, obj.get("revision") or 0, age_of(obj, now)]

"""CSIDrivers: what Kubernetes must know of a CSI driver."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, UNSET, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_DEFAULTS: dict[str, Any] = {
    "attachRequired": True,
    "podInfoOnMount": False,
    "storageCapacity": False,
    "fsGroupPolicy": "ReadWriteOnceWithFSType",
    "requiresRepublish": False,
    "seLinuxMount": False,
}
_MODES = ("Ephemeral", "Persistent")
_LEAST_PERIOD = 10
_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")


class CSIDriverStrategy(Strategy):
    info = ResourceInfo(GroupVersionKind("storage.k8s.io", "v1", "CSIDriver"), "csidrivers", "csidriver", False)
    columns = (
        NAME,
        Column("AttachRequired", type="boolean", description="Whether volumes must be attached before they are mounted."),
        Column("PodInfoOnMount", type="boolean", description="Whether the driver wants to know the pod."),
        Column("StorageCapacity", type="boolean", description="Whether the driver reports capacity."),
        Column("TokenRequests", description="The audiences of tokens the driver wants."),
        Column("RequiresRepublish", type="boolean", description="Whether volumes are published again from time to time."),
        Column("Modes", description="The life cycles of volumes that the driver supports."),
        AGE,
    )
    returns_deleted = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        for field, value in _DEFAULTS.items():
            if spec.get(field) is None:
                spec[field] = value
        if not spec.get("volumeLifecycleModes"):
            spec["volumeLifecycleModes"] = ["Persistent"]

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        found: list[FieldError] = []
        unknown = [mode for mode in spec.get("volumeLifecycleModes") or () if mode not in _MODES]
        found += [fieldpath.not_supported("spec.volumeLifecycleModes", mode, _MODES) for mode in unknown]
        found += checks.one_of(spec.get("fsGroupPolicy"), _GROUP_POLICIES, "spec.fsGroupPolicy")
        period = spec.get("nodeAllocatableUpdatePeriodSeconds")
        if period is not None and period < _LEAST_PERIOD:
            text = f"must be greater than or equal to {_LEAST_PERIOD} seconds"
            found.append(fieldpath.invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, text))
        return found + _check_tokens(spec.get("tokenRequests") or (), "spec.tokenRequests")

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        found = self.validate(ctx, obj)
        # (field, the path that upstream gives it)
        for field, path in (("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")):
            found += checks.immutable(obj["spec"].get(field), (old.get("spec") or {}).get(field), f"spec.{path}")
        return found

    def row(self, obj: Object, now: datetime) -> list[Any]:
        spec = obj.get("spec") or {}
        return [
            obj["metadata"]["name"],
            spec.get("attachRequired") is not False,
            bool(spec.get("podInfoOnMount")),
            bool(spec.get("storageCapacity")),
            ",".join(str(one.get("audience", "")) for one in spec.get("tokenRequests") or ()) or UNSET,
            bool(spec.get("requiresRepublish")),
            ",".join(spec.get("volumeLifecycleModes") or ()),
            age_of(obj, now),
        ]


def _check_tokens(requests: Sequence[Object], path: str) -> list[FieldError]:
    found: list[FieldError] = []
    taken: set[str] = set()
    for position, request in enumerate(requests):
        where, audience, seconds = f"{path}[{position}]", request.get("audience") or "", request.get("expirationSeconds")
        if audience in taken:
            found.append(fieldpath.duplicate(f"{where}.audience", audience))
            continue
        taken.add(audience)
        if seconds is not None and seconds < 600:
            text = "may not specify a duration less than 10 minutes"
            found.append(fieldpath.invalid(f"{where}.expirationSeconds", seconds, text))
        if seconds is not None and seconds > 1 << 32:
            text = "may not specify a duration larger than 2^32 seconds"
            found.append(fieldpath.invalid(f"{where}.expirationSeconds", seconds, text))
    return found

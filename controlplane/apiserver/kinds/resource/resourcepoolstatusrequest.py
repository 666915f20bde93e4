"""ResourcePoolStatusRequests: the question how many devices of a driver are left. Behind ``DRAResourcePoolStatus``.

An empty status is one that has not been answered yet.
"""

from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.resource import devices
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import DEFAULT, default_row
from controlplane.apiserver.registry.strategy import Context, Object, ResourceInfo, Strategy

_LIMIT_DEFAULT, _LIMIT_MAX = 100, 1000


class ResourcePoolStatusRequestStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind(devices.GROUP, "v1alpha3", "ResourcePoolStatusRequest"),
        "resourcepoolstatusrequests",
        "resourcepoolstatusrequest",
        False,
    )
    columns = DEFAULT
    gates = ("DRAResourcePoolStatus",)
    has_status = True

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        if spec.get("limit") is None:
            spec["limit"] = _LIMIT_DEFAULT

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj.pop("status", None)

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        driver = spec.get("driver") or ""
        found = devices.check_driver(driver, "spec.driver") if driver else [fieldpath.required("spec.driver")]
        if "poolName" in spec:
            pool = spec["poolName"] or ""
            problems = [problem for part in pool.split("/") for problem in names.is_dns1123_subdomain(part)]
            found += checks.each("spec.poolName", pool, problems) if pool else [fieldpath.required("spec.poolName")]
        limit = spec["limit"]
        if limit < 1:
            found.append(fieldpath.invalid("spec.limit", limit, "must be greater than or equal to 1"))
        elif limit > _LIMIT_MAX:
            found.append(fieldpath.invalid("spec.limit", limit, f"must be less than or equal to {_LIMIT_MAX}"))
        return found

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return checks.immutable(obj["spec"], old.get("spec"), "spec")

    def validate_status_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        held = old.get("status")
        found = checks.immutable(obj.get("status"), held, "status") if held else []
        count = (obj.get("status") or {}).get("poolCount")
        return found + checks.not_negative(count, "status.poolCount")

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return default_row(obj)

"""The life of a Service: addresses and ports are claimed in the transaction that stores it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from apimachinery import names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.core.service import defaults, table, validation
from controlplane.apiserver.kinds.core.service.allocation import ServiceClaims
from controlplane.apiserver.kinds.core.service.families import fill_families
from controlplane.apiserver.kinds.shared.load_balancer import check_load_balancer
from controlplane.apiserver.registry.strategy import Allocation, Context, Object, ResourceInfo, Strategy
from controlplane.apiserver.storage.interface import Operation


class ServiceStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("", "v1", "Service"), "services", "service", True, short_names=("svc",), categories=("all",)
    )
    columns = table.COLUMNS
    has_status = True
    returns_deleted = True
    allow_create_on_update = True
    name_is_valid = staticmethod(names.is_dns1035_label)
    selectable_names = frozenset({"spec.clusterIP", "spec.type"})

    def __init__(self, claims: ServiceClaims) -> None:
        self._claims = claims

    def default(self, obj: Object) -> None:
        defaults.default_service(obj)

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = {"loadBalancer": {}}
        defaults.normalize_cluster_ips(obj["spec"], None)
        fill_families(obj["spec"], self._claims.offered)

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        return validation.validate_service(obj, self._claims.offered)

    def prepare_for_update(self, ctx: Context, obj: Object, old: Object) -> None:
        spec, previous = obj["spec"], old.get("spec") or {}
        defaults.normalize_cluster_ips(spec, previous)
        defaults.keep_allocated(spec, previous)
        defaults.drop_unused(spec, previous)
        fill_families(spec, self._claims.offered)

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return validation.validate_service_update(obj, old, self._claims.offered)

    def validate_status_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return check_load_balancer(obj.get("status") or {})

    def warnings(self, ctx: Context, obj: Object, old: Object | None) -> list[str]:
        return validation.service_warnings(obj)

    async def allocate(self, ctx: Context, obj: Object, old: Object | None) -> Allocation:
        return await self._claims.allocate(obj, old, ctx.now)

    def release(self, obj: Object) -> Sequence[Operation]:
        return self._claims.release(obj)

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        spec = obj.get("spec") or {}
        return {"spec.clusterIP": spec.get("clusterIP") or "", "spec.type": spec.get("type") or ""}

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return table.service_row(obj, now)

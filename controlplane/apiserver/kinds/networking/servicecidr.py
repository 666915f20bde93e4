"""ServiceCIDRs: the ranges cluster IPs come from. The one named ``kubernetes`` mirrors the server's flag."""

from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy


class ServiceCIDRStrategy(Strategy):
    info = ResourceInfo(GroupVersionKind("networking.k8s.io", "v1", "ServiceCIDR"), "servicecidrs", "servicecidr", False)
    columns = (NAME, Column("CIDRs", description="The ranges in CIDR notation."), AGE)
    has_status = True
    has_generation = True

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        cidrs = (obj.get("spec") or {}).get("cidrs") or []
        if not cidrs:
            return [fieldpath.required("spec.cidrs", "at least one CIDR required")]
        found: list[FieldError] = []
        if len(cidrs) > 2:
            found.append(fieldpath.invalid("spec", cidrs, "may only hold up to 2 values"))
        for position, cidr in enumerate(cidrs):
            found += checks.each(f"spec.cidrs[{position}]", cidr, names.is_strict_cidr(cidr))
        if len(cidrs) == 2 and (":" in cidrs[0]) == (":" in cidrs[1]):
            found.append(
                fieldpath.invalid(
                    "spec", cidrs, "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/96"
                )
            )
        return found

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        new, held = (obj.get("spec") or {}).get("cidrs"), (old.get("spec") or {}).get("cidrs")
        return self.validate(ctx, obj) + checks.immutable(new, held, "spec.cidrs")

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return [obj["metadata"]["name"], ",".join((obj.get("spec") or {}).get("cidrs") or ()), age_of(obj, now)]

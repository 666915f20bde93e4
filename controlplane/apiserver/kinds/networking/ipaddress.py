"""IPAddresses: each one is the claim of a Service (or something else) on an address; made by Service allocation."""

import ipaddress
from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import NAME, NONE
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy


def _name_problems(name: str) -> list[str]:
    """The name is the address, in its one canonical text."""
    problems = names.is_ip(name)
    if problems:
        return problems
    canonical = str(ipaddress.ip_address(name))
    return [] if canonical == name else [f'must be in canonical form ("{canonical}")']


class IPAddressStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind("networking.k8s.io", "v1", "IPAddress"), "ipaddresses", "ipaddress", False, short_names=("ip",)
    )
    columns = (NAME, Column("ParentRef", description="What holds the address."))
    has_generation = True
    name_is_valid = staticmethod(_name_problems)
    selectable_names = frozenset({"spec.parentRef.resource", "spec.parentRef.name", "spec.parentRef.namespace"})

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        parent = (obj.get("spec") or {}).get("parentRef")
        if parent is None:
            return [fieldpath.required("spec.parentRef")]
        return [fieldpath.required(f"spec.parentRef.{field}") for field in ("resource", "name") if not parent.get(field)]

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self.validate(ctx, obj) + checks.immutable(_parent(obj), _parent(old), "spec.parentRef")

    def selectable_fields(self, obj: Object) -> dict[str, str]:
        parent = (obj.get("spec") or {}).get("parentRef") or {}
        return {f"spec.parentRef.{field}": str(parent.get(field) or "") for field in ("resource", "name", "namespace")}

    def row(self, obj: Object, now: datetime) -> list[Any]:
        parent = (obj.get("spec") or {}).get("parentRef") or {}
        resource = ".".join(part for part in (parent.get("resource"), parent.get("group")) if part)
        parts = [part for part in (resource.lower(), parent.get("namespace"), parent.get("name")) if part]
        return [obj["metadata"]["name"], "/".join(parts) or NONE]


def _parent(obj: Object) -> Object | None:
    """The core group is not written down; servers of before did."""
    parent = (obj.get("spec") or {}).get("parentRef")
    return parent and {field: value for field, value in parent.items() if value}

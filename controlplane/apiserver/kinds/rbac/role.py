"""Roles: what may be done inside one namespace."""

from datetime import datetime
from typing import Any

from apimachinery import names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.rbac import rules
from controlplane.apiserver.registry.strategy import Context, Object, ResourceInfo, Strategy


class RoleStrategy(Strategy):
    info = ResourceInfo(GroupVersionKind(rules.GROUP, "v1", "Role"), "roles", "role", True)
    columns = rules.ROLE_COLUMNS
    allow_create_on_update = True
    name_is_valid = staticmethod(names.is_path_segment)

    def default(self, obj: Object) -> None:
        obj.setdefault("rules", None)  # upstream shows an empty role as ``rules: null``

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        return rules.check_rules(obj, namespaced=True)

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self.validate(ctx, obj)

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return rules.role_row(obj)

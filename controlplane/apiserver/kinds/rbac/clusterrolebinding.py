"""ClusterRoleBindings: who has a ClusterRole everywhere."""

from datetime import datetime
from typing import Any

from apimachinery import names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.rbac import rules
from controlplane.apiserver.registry.strategy import Context, Object, ResourceInfo, Strategy


class ClusterRoleBindingStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind(rules.GROUP, "v1", "ClusterRoleBinding"), "clusterrolebindings", "clusterrolebinding", False
    )
    columns = rules.BINDING_COLUMNS
    allow_create_on_update = True
    name_is_valid = staticmethod(names.is_path_segment)

    def default(self, obj: Object) -> None:
        rules.default_binding(obj)

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        return rules.check_binding(obj, namespaced=False)

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self.validate(ctx, obj) + rules.check_binding_update(obj, old)

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return rules.binding_row(obj, now)

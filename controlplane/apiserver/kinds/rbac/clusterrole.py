"""ClusterRoles: what may be done everywhere, or in the namespaces where they are bound."""

from datetime import datetime
from typing import Any

from apimachinery import fieldpath, labels, names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.rbac import rules
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.registry.strategy import Context, Object, ResourceInfo, Strategy


class ClusterRoleStrategy(Strategy):
    info = ResourceInfo(GroupVersionKind(rules.GROUP, "v1", "ClusterRole"), "clusterroles", "clusterrole", False)
    columns = rules.ROLE_COLUMNS
    allow_create_on_update = True
    name_is_valid = staticmethod(names.is_path_segment)

    def default(self, obj: Object) -> None:
        obj.setdefault("rules", None)  # upstream shows an empty role as ``rules: null``

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        found = rules.check_rules(obj, namespaced=False)
        aggregation = obj.get("aggregationRule")
        if aggregation is not None:
            selectors = aggregation.get("clusterRoleSelectors") or ()
            if not selectors:
                text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
                found.append(fieldpath.required("aggregationRule.clusterRoleSelectors", text))
            for position, selector in enumerate(selectors):
                path = f"aggregationRule.clusterRoleSelectors[{position}]"
                found += checks.label_selector(selector, path)
                try:
                    labels.from_label_selector(selector)
                except ValueError:
                    found.append(fieldpath.invalid(path, "null", "invalid label selector."))
        return found

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self.validate(ctx, obj)

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return rules.role_row(obj)

"""PodTemplates: a pod template stored by itself."""

from datetime import datetime
from typing import Any

from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.core.pod_template import default_template, template_warnings, validate_template
from controlplane.apiserver.kinds.shared.columns import NAME, map_text, template_cells
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy


class PodTemplateStrategy(Strategy):
    info = ResourceInfo(GroupVersionKind("", "v1", "PodTemplate"), "podtemplates", "podtemplate", True)
    columns = (
        NAME,
        Column("Containers", description="Names of each container in the template."),
        Column("Images", description="Images referenced by each container in the template."),
        Column("Pod Labels", description="The labels for the pod template."),
    )
    has_generation = True
    returns_deleted = True

    def default(self, obj: Object) -> None:
        default_template(obj.setdefault("template", {}))

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        return validate_template(obj["template"], "template")

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self.validate(ctx, obj)

    def warnings(self, ctx: Context, obj: Object, old: Object | None) -> list[str]:
        return template_warnings(obj["template"], "template")

    def row(self, obj: Object, now: datetime) -> list[Any]:
        template = obj.get("template") or {}
        labels = (template.get("metadata") or {}).get("labels")
        return [obj["metadata"]["name"], *template_cells(template), map_text(labels)]

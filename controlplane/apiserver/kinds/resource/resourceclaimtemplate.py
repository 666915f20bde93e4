"""ResourceClaimTemplates: claims that are made for each pod that refers to one."""

from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.resource import devices
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME
from controlplane.apiserver.registry.strategy import Context, Object, ResourceInfo, Strategy


class ResourceClaimTemplateStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind(devices.GROUP, "v1", "ResourceClaimTemplate"), "resourceclaimtemplates", "resourceclaimtemplate", True
    )
    columns = (NAME, AGE)
    returns_deleted = True

    def default(self, obj: Object) -> None:
        devices.default_claim(obj.setdefault("spec", {}).setdefault("spec", {}))

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        metadata = obj["spec"].get("metadata") or {}
        found = checks.labels(metadata.get("labels"), "spec.metadata.labels")
        found += checks.annotations(metadata.get("annotations"), "spec.metadata.annotations")
        return found + devices.check_claim(obj["spec"]["spec"], "spec.spec")

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return checks.immutable(obj["spec"], old.get("spec"), "spec")

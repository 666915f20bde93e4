"""DeviceClasses: kinds of devices that claims may ask for."""

from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.resource import devices
from controlplane.apiserver.kinds.shared.columns import AGE, NAME
from controlplane.apiserver.registry.strategy import Context, Object, ResourceInfo, Strategy


class DeviceClassStrategy(Strategy):
    info = ResourceInfo(GroupVersionKind(devices.GROUP, "v1", "DeviceClass"), "deviceclasses", "deviceclass", False)
    columns = (NAME, AGE)
    returns_deleted = True
    has_generation = True

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {})

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        found = devices.check_selectors(spec.get("selectors") or (), "spec.selectors")
        for position, config in enumerate(spec.get("config") or ()):
            found += devices.check_config(config, f"spec.config[{position}]")
        return found

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self.validate(ctx, obj)

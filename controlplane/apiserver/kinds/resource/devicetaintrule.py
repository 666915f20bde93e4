"""DeviceTaintRules: taints on devices that match a selector, set by people and not by drivers."""

from datetime import datetime
from typing import Any

from apimachinery import names
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from apimachinery.times import format_time
from controlplane.apiserver.kinds.resource import devices
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, age_of
from controlplane.apiserver.registry.strategy import Context, Object, ResourceInfo, Strategy


class DeviceTaintRuleStrategy(Strategy):
    info = ResourceInfo(
        GroupVersionKind(devices.GROUP, "v1beta2", "DeviceTaintRule"), "devicetaintrules", "devicetaintrule", False
    )
    columns = (NAME, AGE)
    returns_deleted = True
    has_status = True
    has_generation = True

    def default(self, obj: Object) -> None:
        obj.setdefault("spec", {}).setdefault("taint", {})

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = {}
        if not obj["spec"]["taint"].get("timeAdded"):
            obj["spec"]["taint"]["timeAdded"] = format_time(ctx.now)

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        taint, selector = obj["spec"]["taint"], obj["spec"].get("deviceSelector") or {}
        found = devices.check_taint(taint, "spec.taint")
        if selector.get("driver"):
            found += devices.check_driver(selector["driver"], "spec.deviceSelector.driver")
        if selector.get("device"):
            device = selector["device"]
            found += checks.each("spec.deviceSelector.device", device, names.is_dns1123_label(device))
        return found

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return self.validate(ctx, obj)

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return [obj["metadata"]["name"], age_of(obj, now)]

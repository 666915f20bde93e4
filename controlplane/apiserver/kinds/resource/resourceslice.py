"""ResourceSlices: devices that a driver offers, on one node or for several."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apimachinery import fieldpath, names, quantity
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from controlplane.apiserver.kinds.core.pod_template.scheduling import validate_node_selector
from controlplane.apiserver.kinds.resource import devices
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.amounts import canonical_amount
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_DEVICES_MAX = 128
_ATTRIBUTES_MAX = 32
_PLACES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_PLACE = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_VALUES = ("bool", "int", "string", "version")

_VALUE_MAX = 64
_PART = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_SEMVER = re.compile(
    rf"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-{_PART}(\.{_PART})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?"
).fullmatch


class ResourceSliceStrategy(Strategy):
    info = ResourceInfo(GroupVersionKind(devices.GROUP, "v1", "ResourceSlice"), "resourceslices", "resourceslice", False)
    columns = (
        NAME,
        Column("Node", description="The node whose devices these are."),
        Column("Driver", description="The driver that offers them."),
        Column("Pool", description="The pool they belong to."),
        AGE,
    )
    returns_deleted = True
    has_generation = True
    selectable_names = frozenset({"spec.nodeName", "spec.driver"})

    def default(self, obj: Object) -> None:
        for device in obj.setdefault("spec", {}).get("devices") or ():
            for capacity in (device.get("capacity") or {}).values():
                capacity["value"] = canonical_amount(capacity.get("value") or "0")

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        spec = obj["spec"]
        found = devices.check_driver(spec.get("driver") or "", "spec.driver") + _check_pool(spec.get("pool") or {})
        found += _check_place(spec)
        offered = spec.get("devices") or ()
        if len(offered) > _DEVICES_MAX:
            found.append(fieldpath.too_many("spec.devices", len(offered), _DEVICES_MAX))
        taken: set[str] = set()
        for position, device in enumerate(offered):
            where = f"spec.devices[{position}]"
            found += devices.check_name(device.get("name") or "", f"{where}.name", taken) + _check_device(device, where)
        return found

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        spec, held = obj["spec"], old.get("spec") or {}
        found = self.validate(ctx, obj)
        for field in ("driver", "nodeName"):
            found += checks.immutable(spec.get(field), held.get(field), f"spec.{field}")
        name, before = (spec.get("pool") or {}).get("name"), (held.get("pool") or {}).get("name")
        return found + checks.immutable(name, before, "spec.pool.name")

    def selectable_fields(self, obj: Object) -> Mapping[str, str]:
        spec = obj.get("spec") or {}
        return {"spec.nodeName": str(spec.get("nodeName") or ""), "spec.driver": str(spec.get("driver") or "")}

    def row(self, obj: Object, now: datetime) -> list[Any]:
        spec = obj.get("spec") or {}
        pool = (spec.get("pool") or {}).get("name") or ""
        return [obj["metadata"]["name"], spec.get("nodeName") or "", spec.get("driver") or "", pool, age_of(obj, now)]


def _check_pool(pool: Mapping[str, Any]) -> list[FieldError]:
    name, path = pool.get("name") or "", "spec.pool"
    found: list[FieldError] = []
    if not name:
        found.append(fieldpath.required(f"{path}.name"))
    for part in name.split("/") if name else ():
        found += checks.each(f"{path}.name", part, names.is_dns1123_subdomain(part))
    count, generation = pool.get("resourceSliceCount") or 0, pool.get("generation") or 0
    if count <= 0:
        found.append(fieldpath.invalid(f"{path}.resourceSliceCount", count, "must be greater than zero"))
    return found + checks.not_negative(generation, f"{path}.generation")


def _check_place(spec: Mapping[str, Any]) -> list[FieldError]:
    given = [field for field in _PLACES if spec.get(field)]
    found: list[FieldError] = []
    if spec.get("nodeName"):
        found += checks.each("spec.nodeName", spec["nodeName"], names.is_dns1123_subdomain(spec["nodeName"]))
    if spec.get("nodeSelector") is not None:
        found += validate_node_selector(spec["nodeSelector"], "spec.nodeSelector")
        if len(spec["nodeSelector"].get("nodeSelectorTerms") or ()) > 1:
            text = "must have exactly one node selector term"
            found.append(fieldpath.invalid("spec.nodeSelector.nodeSelectorTerms", spec["nodeSelector"], text))
    if not given and spec.get("nodeSelector") is None:
        found.append(fieldpath.required("spec", _ONE_PLACE))
    elif len(given) > 1:
        shown = "{" + ", ".join(f"`{field}`" for field in given) + "}"
        found.append(fieldpath.invalid("spec", shown, _ONE_PLACE + ", but multiple fields are set"))
    return found


def _check_device(device: Mapping[str, Any], path: str) -> list[FieldError]:
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    found: list[FieldError] = []
    if len(attributes) + len(capacity) > _ATTRIBUTES_MAX:
        text = f"the total number of attributes and capacities must not exceed {_ATTRIBUTES_MAX}"
        found.append(fieldpath.invalid(path, len(attributes) + len(capacity), text))
    for name, value in attributes.items():
        where = f"{path}.attributes[{name}]"
        found += _check_qualified(name, where)
        given = [field for field in _VALUES if (value or {}).get(field) is not None]
        if len(given) != 1:
            text = "exactly one value must be specified"
            found.append(fieldpath.invalid(where, value, text) if given else fieldpath.required(where, text))
        elif given == ["version"] and not _SEMVER(value["version"]):
            text = "must be a string compatible with semver.org spec 2.0.0"
            found.append(fieldpath.invalid(f"{where}.version", value["version"], text))
        if given in (["version"], ["string"]) and len(value[given[0]]) > _VALUE_MAX:
            found.append(fieldpath.too_long(f"{where}.{given[0]}", _VALUE_MAX))
    for position, taint in enumerate(device.get("taints") or ()):
        found += devices.check_taint(taint, f"{path}.taints[{position}]")
    for name, value in capacity.items():
        found += _check_qualified(name, f"{path}.capacity[{name}]")
        if quantity.parse((value or {}).get("value") or "0") < quantity.ZERO:
            found.append(fieldpath.invalid(f"{path}.capacity[{name}].value", value.get("value"), checks.NOT_NEGATIVE))
    return found


def _check_qualified(name: str, path: str) -> list[FieldError]:
    domain, slash, identifier = name.rpartition("/")
    found = checks.each(path, domain, names.is_dns1123_subdomain(domain)) if slash else []
    return found + checks.each(path, identifier, names.is_c_identifier(identifier))

"""ResourceClaims: devices that somebody wants, and which ones the scheduler gave."""

import json
from datetime import datetime
from typing import Any

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError
from apimachinery.gvk import GroupVersionKind
from apimachinery.objects import claims
from controlplane.apiserver.kinds.resource import devices
from controlplane.apiserver.kinds.shared import checks
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, age_of
from controlplane.apiserver.registry.strategy import Column, Context, Object, ResourceInfo, Strategy

_CONSUMERS_MAX = 256
_CONDITIONS_MAX = 8
_DATA_MAX = 10 * 1024


class ResourceClaimStrategy(Strategy):
    info = ResourceInfo(GroupVersionKind(devices.GROUP, "v1", "ResourceClaim"), "resourceclaims", "resourceclaim", True)
    columns = (NAME, Column("State", description="What became of the claim."), AGE)
    returns_deleted = True
    has_status = True

    def default(self, obj: Object) -> None:
        devices.default_claim(obj.setdefault("spec", {}))

    def prepare_for_create(self, ctx: Context, obj: Object) -> None:
        obj["status"] = {}

    def validate(self, ctx: Context, obj: Object) -> list[FieldError]:
        return devices.check_claim(obj["spec"], "spec")

    def validate_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        return checks.immutable(obj["spec"], old.get("spec"), "spec")

    def validate_status_update(self, ctx: Context, obj: Object, old: Object) -> list[FieldError]:
        status, held = obj.get("status") or {}, old.get("status") or {}
        consumers = status.get("reservedFor") or ()
        found: list[FieldError] = []
        if len(consumers) > _CONSUMERS_MAX:
            found.append(fieldpath.too_many("status.reservedFor", len(consumers), _CONSUMERS_MAX))
        if consumers and status.get("allocation") is None:
            found.append(fieldpath.forbidden("status.reservedFor", "may not be specified when `allocated` is not set"))
        if consumers and obj["metadata"].get("deletionTimestamp"):
            before = [one.get("uid") for one in held.get("reservedFor") or ()]
            if any(one.get("uid") not in before for one in consumers):
                text = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
                found.append(fieldpath.forbidden("status.reservedFor", text))
        found += _check_consumers(consumers, "status.reservedFor")
        found += _check_results(obj) + _check_devices(status)
        if held.get("allocation") is not None and status.get("allocation") is not None:
            found += checks.immutable(status["allocation"], held["allocation"], "status.allocation")
        return found

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return [obj["metadata"]["name"], _state(obj), age_of(obj, now)]


def _check_results(obj: Object) -> list[FieldError]:
    """What was allocated answers requests of the claim."""
    results, path = claims.results_of(obj), "status.allocation.devices.results"
    found = [fieldpath.too_many(path, len(results), claims.RESULTS_MAX)] if len(results) > claims.RESULTS_MAX else []
    known = {name for name, _ in claims.requests_of(obj.get("spec") or {})}
    for position, result in enumerate(results):
        where, name = f"{path}[{position}]", result.get("request") or ""
        if name not in known:
            found.append(fieldpath.invalid(f"{where}.request", name, devices.NOT_A_REQUEST))
        found += devices.check_driver(result.get("driver") or "", f"{where}.driver")
        found += [fieldpath.required(f"{where}.{field}") for field in ("pool", "device") if not result.get(field)]
    return found


def _check_devices(status: Object) -> list[FieldError]:
    """What drivers tell of devices: of each that is allocated, once."""
    listed, found = status.get("devices") or (), []
    allocated = {claims.pool_key(result) for result in claims.results_of({"status": status})}
    taken: set[tuple[object, ...]] = set()
    for position, device in enumerate(listed):
        where, key = f"status.devices[{position}]", claims.pool_key(device)
        own = (*key, device.get("shareID"))
        if own in taken:
            found.append(fieldpath.duplicate(where, "/".join(key)))
        taken.add(own)
        if key not in allocated:
            found.append(fieldpath.invalid(where, "/".join(key), "must be an allocated device in the claim"))
        conditions = device.get("conditions") or ()
        if len(conditions) > _CONDITIONS_MAX:
            found.append(fieldpath.too_many(f"{where}.conditions", len(conditions), _CONDITIONS_MAX))
        if len(json.dumps(device.get("data"), separators=(",", ":"))) > _DATA_MAX:
            found.append(fieldpath.too_long(f"{where}.data", _DATA_MAX))
    return found


def _check_consumers(consumers: Any, path: str) -> list[FieldError]:
    found: list[FieldError] = []
    taken: set[str] = set()
    for position, one in enumerate(consumers):
        where, uid = f"{path}[{position}]", one.get("uid") or ""
        found += [fieldpath.required(f"{where}.{field}") for field in ("resource", "name", "uid") if not one.get(field)]
        if uid and uid in taken:
            found.append(fieldpath.duplicate(f"{where}.uid", uid))
        taken.add(uid)
    return found


def _state(obj: Object) -> str:
    status = obj.get("status") or {}
    words = ["deleted"] if obj["metadata"].get("deletionTimestamp") else []
    if status.get("allocation") is None:
        words += [] if words else ["pending"]
    else:
        words.append("allocated")
        words += ["reserved"] if status.get("reservedFor") else []
    return ",".join(words)

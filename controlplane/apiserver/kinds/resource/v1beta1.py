"""resource.k8s.io/v1beta1: what v1 writes under ``exactly`` stood in the request itself, and a device's parts under ``basic``."""

from typing import Any

from controlplane.apiserver.kinds.shared.versions import VersionView
from controlplane.apiserver.registry.strategy import Object

_EXACT = ("adminAccess", "allocationMode", "capacity", "count", "deviceClassName", "selectors", "tolerations")


def _map(obj: Object, path: tuple[str, ...], change: Any) -> Object:
    """``obj`` with the list at ``path`` changed, item by item; shares everything else."""
    first, *rest = path
    held = obj.get(first)
    if held is None:
        return obj
    return {**obj, first: _map(held, tuple(rest), change) if rest else [change(one) for one in held]}


def request_to_v1(request: Object) -> Object:
    exact = {field: value for field, value in request.items() if field in _EXACT}
    rest = {field: value for field, value in request.items() if field not in _EXACT}
    return {**rest, "exactly": exact} if exact else rest


def request_from_v1(request: Object) -> Object:
    rest = {field: value for field, value in request.items() if field != "exactly"}
    return {**rest, **(request.get("exactly") or {})}


def device_to_v1(device: Object) -> Object:
    rest = {field: value for field, value in device.items() if field != "basic"}
    return {**(device.get("basic") or {}), **rest}


def device_from_v1(device: Object) -> Object:
    named = {"name": device["name"]} if "name" in device else {}
    return {**named, "basic": {field: value for field, value in device.items() if field != "name"}}


class _V1beta1Strategy(VersionView):
    same_fields = False

    _path: tuple[str, ...]
    _pair: tuple[Any, Any] = (request_to_v1, request_from_v1)

    def to_stored(self, obj: Object) -> Object:
        return _map(super().to_stored(obj), self._path, self._pair[0])

    def from_stored(self, obj: Object) -> Object:
        return _map(super().from_stored(obj), self._path, self._pair[1])


class ClaimV1beta1Strategy(_V1beta1Strategy):
    _path = ("spec", "devices", "requests")


class TemplateV1beta1Strategy(_V1beta1Strategy):
    _path = ("spec", "spec", "devices", "requests")


class SliceV1beta1Strategy(_V1beta1Strategy):
    _path = ("spec", "devices")
    _pair = (device_to_v1, device_from_v1)

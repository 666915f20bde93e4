"""Slices, classes and claims for the tests of this folder."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from apimachinery.cel.device import selector
from apimachinery.meta import Object
from controlplane.scheduler.devices.allocator import Allocation, Features, Given, allocate
from controlplane.scheduler.devices.pools import Catalogue, Device
from controlplane.scheduler.devices.taken import Taken

DRIVER = "gpu.example.com"
NODE: Object = {"metadata": {"name": "here", "labels": {"zone": "a"}}, "status": {}}
CLASSES: Mapping[str, Object] = {
    "gpu": {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]}},
    "any": {"metadata": {"name": "any"}, "spec": {}},
}


def device(name: str, **entry: Any) -> Object:
    return {"name": name, **entry}


def attributes(**values: Any) -> dict[str, Any]:
    kinds = {bool: "bool", int: "int", str: "string"}
    return {name: {kinds[type(value)]: value} for name, value in values.items()}


def slice_of(*devices: Object, name: str = "one", pool: str = "here", driver: str = DRIVER, **spec: Any) -> Object:
    described = {"name": pool, "generation": spec.pop("generation", 1), "resourceSliceCount": spec.pop("of", 1)}
    place = {} if spec.keys() & {"nodeSelector", "allNodes", "perDeviceNodeSelection", "nodeName"} else {"nodeName": "here"}
    return {"metadata": {"name": name}, "spec": {"driver": driver, "pool": described, "devices": list(devices), **place, **spec}}


def exactly(name: str = "it", device_class: str = "gpu", **asked: Any) -> Object:
    return {"name": name, "exactly": _asked(device_class, asked)}


def either(*choices: Object, name: str = "it") -> Object:
    return {"name": name, "firstAvailable": list(choices)}


def choice(name: str, device_class: str = "gpu", **asked: Any) -> Object:
    return {"name": name, **_asked(device_class, asked)}


def _asked(device_class: str, asked: dict[str, Any]) -> dict[str, Any]:
    where = asked.pop("where", None)
    if where is not None:
        asked["selectors"] = [{"cel": {"expression": where}}]
    mode = asked.get("allocationMode", "ExactCount")
    count = {} if mode == "All" else {"count": asked.pop("count", 1)}
    return {"deviceClassName": device_class, "allocationMode": mode, **count, **asked}


def claim(*requests: Object, name: str = "claim", constraints: Sequence[Object] = (), **devices: Any) -> Object:
    described = {"requests": list(requests), **({"constraints": list(constraints)} if constraints else {}), **devices}
    return {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": {"devices": described}}


def select(expression: str, one: Device) -> bool:
    return selector(expression).matches(one.id.driver, one.entry)


def given(*slices: Object, held: Sequence[Object] = (), features: Features | None = None, **more: Any) -> Given:
    ids = (f"share-{number}" for number in itertools.count())
    new_id: Callable[[], str] = lambda: next(ids)  # noqa: E731
    return Given(Catalogue(slices), CLASSES, Taken(held), select, new_id, features or Features(), **more)


def names(allocations: list[Allocation] | None) -> list[list[str]] | None:
    """The devices of each claim, in the order of the results."""
    if allocations is None:
        return None
    return [[result["device"] for result in each["devices"]["results"]] for each in allocations]


def allocated(slices: Sequence[Object], *claims: Object, **more: Any) -> list[list[str]] | None:
    return names(allocate(given(*slices, **more), NODE, claims))


def held(*devices: str, pool: str = "here", **result: Any) -> Object:
    """A claim that has these devices already."""
    results = [{"request": "it", "driver": DRIVER, "pool": pool, "device": name, **result} for name in devices]
    return {"metadata": {"name": "-".join(devices)}, "status": {"allocation": {"devices": {"results": results}}}}

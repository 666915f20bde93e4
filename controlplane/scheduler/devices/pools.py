"""ResourceSlices as pools of devices: which of them count, and which of their devices a node can reach.

``Catalogue`` is made whenever a slice has changed; ``for_node`` is asked for each node that a pod might go to. Of a pool only
the slices of its newest generation count. A pool whose slices are not all there yet is incomplete, one that contradicts itself
invalid: neither gives devices, and whoever wants all devices has to wait for it. Rules: upstream's
``k8s.io/dynamic-resource-allocation/structured``, pools.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from apimachinery import quantity
from apimachinery.meta import Object, name_of
from apimachinery.objects.affinity import matches_node_selector

Counters = dict[str, dict[str, int]]
"""Counter set to counter to amount, in nanos."""


class DeviceId(NamedTuple):
    driver: str
    pool: str
    name: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.name}"


@dataclass(frozen=True, slots=True)
class Device:
    """One device. ``place`` is what says where it is: its slice's spec, or its own entry."""

    id: DeviceId
    entry: Mapping[str, Any]
    place: Mapping[str, Any]

    @property
    def shared(self) -> bool:
        """Whether several claims may have it at a time."""
        return bool(self.entry.get("allowMultipleAllocations"))


@dataclass(frozen=True, slots=True)
class Pool:
    """``devices`` in the order in which they are offered; ``local`` is the one node that the whole pool belongs to."""

    driver: str
    name: str
    devices: tuple[Device, ...] = ()
    counters: Mapping[str, Mapping[str, int]] | None = None
    incomplete: bool = False
    invalid: str = ""
    binding: bool = False
    local: str = ""
    places: tuple[Mapping[str, Any], ...] = ()

    def __str__(self) -> str:
        return f"{self.driver}/{self.name}"


@dataclass(frozen=True, slots=True)
class Offer:
    """A pool as one node sees it."""

    pool: Pool
    devices: tuple[Device, ...]


class Catalogue:
    """All pools, found by the node they belong to. ``selected`` keeps which expressions select which devices: devices do not
    change while their catalogue lives."""

    def __init__(self, slices: Iterable[Object] = (), *, partitionable: bool = True) -> None:
        grouped: dict[tuple[str, str], list[Object]] = {}
        for each in slices:
            spec = each.get("spec") or {}
            if partitionable or not (spec.get("perDeviceNodeSelection") or spec.get("sharedCounters")):
                grouped.setdefault((spec.get("driver") or "", (spec.get("pool") or {}).get("name") or ""), []).append(each)
        self.pools: dict[tuple[str, str], Pool] = {}
        self.selected: dict[tuple[str, DeviceId], bool] = {}
        self._local: dict[str, list[Pool]] = {}
        self._elsewhere: list[Pool] = []
        for (driver, name), members in sorted(grouped.items()):
            made = self.pools[driver, name] = _pool(driver, name, members)
            if made.local:
                self._local.setdefault(made.local, []).append(made)
            else:
                self._elsewhere.append(made)

    def for_node(self, node: Object) -> list[Offer]:
        """Pools with something for the node, those with binding conditions last, else by driver and name."""
        mine = [Offer(pool, pool.devices) for pool in self._local.get(name_of(node), ())]
        for pool in self._elsewhere:
            reachable = tuple(device for device in pool.devices if reaches(device.place, node))
            if reachable or ((pool.incomplete or pool.invalid) and _any_reaches(pool, node)):
                mine.append(Offer(pool, reachable))
        return sorted(mine, key=lambda offer: (offer.pool.binding, offer.pool.driver, offer.pool.name))


def reaches(place: Mapping[str, Any], node: Object) -> bool:
    """Whether what is said about a place includes the node."""
    if place.get("nodeName"):
        return bool(place["nodeName"] == name_of(node))
    if place.get("allNodes"):
        return True
    return place.get("nodeSelector") is not None and matches_node_selector(place["nodeSelector"], node)


def consumed(device: Mapping[str, Any]) -> Counters:
    """What a device takes from the counters that it shares with others."""
    return {
        each.get("counterSet") or "": {name: _nanos(counter) for name, counter in (each.get("counters") or {}).items()}
        for each in device.get("consumesCounters") or ()
    }


def _any_reaches(pool: Pool, node: Object) -> bool:
    """Whether the node might get something of a pool that is not fit for use now."""
    return any(reaches(place, node) for place in pool.places)


def _pool(driver: str, name: str, slices: Sequence[Object]) -> Pool:
    newest = max(_generation(each) for each in slices)
    current = sorted((each for each in slices if _generation(each) == newest), key=name_of)
    devices = tuple(device for each in current for device in _devices(driver, name, each["spec"]))
    places = tuple(place for each in current for place in _places(each["spec"]))
    names = {str(place.get("nodeName") or "") for place in places}
    local = names.pop() if len(names) == 1 else ""
    wanted = (current[0]["spec"].get("pool") or {}).get("resourceSliceCount") or 0
    if len(current) != wanted:
        return Pool(driver, name, devices, incomplete=True, local=local, places=places)
    counters: Counters = {}
    problem = _gather_counters(current, counters) or _duplicate(devices) or _unknown_counter(devices, counters)
    binding = any(device.entry.get("bindingConditions") for device in devices)
    return Pool(driver, name, devices, counters, invalid=problem, binding=binding, local=local, places=places)


def _generation(each: Object) -> int:
    return int(((each.get("spec") or {}).get("pool") or {}).get("generation") or 0)


def _places(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(spec.get("devices") or ()) if spec.get("perDeviceNodeSelection") else [spec]


def _devices(driver: str, pool: str, spec: Mapping[str, Any]) -> Iterator[Device]:
    for entry in spec.get("devices") or ():
        place = entry if spec.get("perDeviceNodeSelection") else spec
        yield Device(DeviceId(driver, pool, str(entry.get("name") or "")), entry, place)


def _gather_counters(slices: Sequence[Object], into: Counters) -> str:
    for each in slices:
        for listed in each["spec"].get("sharedCounters") or ():
            name = listed.get("name") or ""
            if name in into:
                return f"duplicate counter set name {name}"
            into[name] = {counter: _nanos(value) for counter, value in (listed.get("counters") or {}).items()}
    return ""


def _duplicate(devices: Sequence[Device]) -> str:
    seen: set[DeviceId] = set()
    for device in devices:
        if device.id in seen:
            return f"duplicate device name {device.id.name}"
        seen.add(device.id)
    return ""


def _unknown_counter(devices: Sequence[Device], counters: Counters) -> str:
    for device in devices:
        for name, taken in consumed(device.entry).items():
            if name not in counters:
                return f"counter set {name} not found"
            for counter in taken:
                if counter not in counters[name]:
                    return f"counter {counter} not found in counter set {name}"
    return ""


def _nanos(counter: Mapping[str, Any]) -> int:
    return quantity.parse(counter.get("value") or "0").nanos

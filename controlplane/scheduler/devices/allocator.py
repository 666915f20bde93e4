"""Finds devices for claims on one node: an exhaustive search that stops at the first full solution. Pure.

One device after the other is picked for each request, checked against selectors, taints, constraints, counters and capacities,
and given back when what comes after it finds nothing. Order decides: alternatives (``firstAvailable``) as written, pools and
slices by name, devices as listed, so drivers can say what should go first. Rules: upstream's
``k8s.io/dynamic-resource-allocation/structured``. Within a request devices are picked in order only: a request does not tell its
devices apart, so other orders of the same devices cannot do better, and there are very many of them.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apimachinery.meta import Object, key_of, name_of
from apimachinery.objects import claims as claim_rules
from apimachinery.objects import device_taints
from controlplane.scheduler.devices import capacity
from controlplane.scheduler.devices.constraints import Constraint
from controlplane.scheduler.devices.pools import Catalogue, Device, DeviceId, Offer, Pool, consumed
from controlplane.scheduler.devices.taken import Taken

Select = Callable[[str, Device], bool]
"""Whether an expression selects a device. Raises ValueError, with the text for people, if it cannot say."""
Allocation = dict[str, Any]
"""An ``AllocationResult``."""
_ALL = "All"
_ANSWERS_KEPT = 100_000
_FIELDS_OF_DEVICE = ("bindingConditions", "bindingFailureConditions")


class AllocationError(Exception):
    """The claims cannot be allocated on this node, for a reason worth telling."""


class OutOfTimeError(Exception):
    """The search was cut off: raised by ``Limits.check``."""


def _no_limit() -> None: ...


@dataclass(frozen=True, slots=True)
class Features:
    """The parts that a feature gate can take away."""

    partitionable: bool = True
    taints: bool = True
    binding: bool = True
    consumable: bool = True


@dataclass(frozen=True, slots=True)
class Given:
    """What an allocation starts from. ``classes`` by name; ``new_id`` makes the ids of shares; ``check`` may end the search."""

    catalogue: Catalogue
    classes: Mapping[str, Object]
    taken: Taken
    select: Select
    new_id: Callable[[], str]
    features: Features = field(default_factory=Features)
    check: Callable[[], None] = _no_limit


@dataclass(frozen=True, slots=True)
class _Request:
    """One request, or one alternative of it."""

    name: str
    full: str
    asked: Mapping[str, Any]
    device_class: Object
    expressions: tuple[str, ...]
    everything: tuple[Device, ...] | None = None

    @property
    def admin(self) -> bool:
        return bool(self.asked.get("adminAccess"))

    @property
    def count(self) -> int:
        return len(self.everything) if self.everything is not None else int(self.asked.get("count") or 1)

    @property
    def amounts(self) -> Mapping[str, Any]:
        return (self.asked.get("capacity") or {}).get("requests") or {}


@dataclass(frozen=True, slots=True)
class _Chosen:
    request: _Request
    device: Device
    amounts: Mapping[str, Any]
    share: str = ""


def allocate(given: Given, node: Object, wanted: Sequence[Object]) -> list[Allocation] | None:
    """An allocation for each of the claims, which are not allocated yet, or None if the node cannot have them all.

    Raises AllocationError, and what ``given.check`` raises.
    """
    search = _Search(given, node, wanted)
    return search.results() if search.run() else None


class _Search:
    def __init__(self, given: Given, node: Object, wanted: Sequence[Object]) -> None:
        self._given, self._node, self._claims = given, node, wanted
        self._offers = given.catalogue.for_node(node)
        self._selected = given.catalogue.selected
        self._constraints = [
            [Constraint(each) for each in (claim["spec"].get("devices") or {}).get("constraints") or ()] for claim in wanted
        ]
        self._chosen: list[list[_Chosen]] = [[] for _ in wanted]
        self._picked: list[list[_Request]] = [[] for _ in wanted]
        self._whole: dict[DeviceId, Counter[int]] = {}
        self._used: dict[DeviceId, Counter[str]] = {}
        self._shares: Counter[DeviceId] = Counter()
        self._counted: dict[str, dict[tuple[str, str], int]] = {}
        self._requests = [[self._alternatives(claim, each) for each in _requests(claim)] for claim in wanted]

    # What is asked

    def _alternatives(self, claim: Object, request: Mapping[str, Any]) -> list[_Request]:
        name = str(request.get("name") or "")
        if request.get("exactly") is not None:
            return [self._request(claim, name, name, request["exactly"])]
        choices = request.get("firstAvailable") or ()
        if not choices:
            raise AllocationError(f"claim {key_of(claim)}, request {name}: unknown request type")
        return [self._request(claim, name, f"{name}/{choice.get('name') or ''}", choice) for choice in choices]

    def _request(self, claim: Object, name: str, full: str, asked: Mapping[str, Any]) -> _Request:
        where = f"claim {key_of(claim)}, request {full}"
        wanted = str(asked.get("deviceClassName") or "")
        found = self._given.classes.get(wanted)
        if found is None:
            raise AllocationError(f"{where}: could not retrieve device class {wanted}")
        if not self._given.features.consumable and (asked.get("capacity") or {}).get("requests"):
            raise AllocationError(f"{where}: has capacity requests, but the DRAConsumableCapacity feature is disabled")
        selectors = [*((found.get("spec") or {}).get("selectors") or ()), *(asked.get("selectors") or ())]
        expressions = tuple(str((each.get("cel") or {}).get("expression") or "") for each in selectors)
        made = _Request(name, full, asked, found, expressions)
        if asked.get("allocationMode") != _ALL:
            return made
        return _Request(name, full, asked, found, expressions, tuple(self._every(made, where)))

    def _every(self, request: _Request, where: str) -> Iterator[Device]:
        """All devices that are selected; unknown while a pool is being changed."""
        for offer in self._offers:
            problem = "being updated" if offer.pool.incomplete else "invalid" if offer.pool.invalid else ""
            if problem:
                text = f"asks for all devices, but resource pool {offer.pool} is currently {problem}"
                raise AllocationError(f"{where}: {text}")
            for device in offer.devices:
                if self._is_selected(request, device) and self._amounts(request, device) is not None:
                    yield device

    # The search

    def run(self) -> bool:
        return self._next(0, 0)

    def _next(self, claim: int, position: int) -> bool:
        if claim == len(self._claims):
            return True
        if position == len(self._requests[claim]):
            return self._next(claim + 1, 0)
        for request in self._requests[claim][position]:
            if len(self._chosen[claim]) + request.count > claim_rules.RESULTS_MAX or not request.count:
                continue  # more than fits into an allocation; or all devices, and there are none
            self._picked[claim].append(request)
            if self._devices(claim, position, request, 0, 0):
                return True
            self._picked[claim].pop()
        return False

    def _devices(self, claim: int, position: int, request: _Request, done: int, start: int) -> bool:
        """The devices of a request from its ``done``-th on, among the candidates from ``start`` on."""
        self._given.check()
        if done == request.count:
            return self._next(claim, position + 1)
        if request.everything is not None:
            return self._try(claim, position, request, done, 0, request.everything[done])
        found = self._candidates(request, start)
        return any(self._try(claim, position, request, done, index, device) for index, device in found)

    def _candidates(self, request: _Request, start: int) -> Iterator[tuple[int, Device]]:
        index = 0
        for offer in self._offers:
            if offer.pool.incomplete:
                continue
            if offer.pool.invalid:
                raise AllocationError(f"pool {offer.pool.name} is invalid: {offer.pool.invalid}")
            if index + len(offer.devices) <= start:
                index += len(offer.devices)
                continue
            for device in offer.devices:
                if index >= start:
                    yield index, device
                index += 1

    def _try(self, claim: int, position: int, request: _Request, done: int, index: int, device: Device) -> bool:
        """Take the device and see whether the rest can be found; give it back if not."""
        # The cheap questions first: in a busy cluster most devices are taken.
        if not self._is_free(claim, request, device) or not self._is_selected(request, device):
            return False
        amounts = self._amounts(request, device)
        if amounts is None or not self._count(device, 1):
            return False
        held = self._push(claim, request, device)
        if held is None:
            self._count(device, -1)
            return False
        self._take(claim, request, device, amounts, 1)
        # A device that can be shared may serve the same request more than once.
        if self._devices(claim, position, request, done + 1, index if device.shared else index + 1):
            return True
        self._take(claim, request, device, amounts, -1)
        for constraint in held:
            constraint.pop()
        self._count(device, -1)
        return False

    def _is_selected(self, request: _Request, device: Device) -> bool:
        if device.entry.get("bindingConditions") and not self._given.features.binding:
            return False
        for expression in request.expressions:
            key = (expression, device.id)
            if key not in self._selected:
                try:
                    answer = self._given.select(expression, device)
                except ValueError as error:
                    raise AllocationError(self._blame(request, expression, error)) from None
                if len(self._selected) >= _ANSWERS_KEPT:
                    self._selected.clear()
                self._selected[key] = answer
            if not self._selected[key]:
                return False
        return True

    def _blame(self, request: _Request, expression: str, error: ValueError) -> str:
        """Whose selector it is that cannot be evaluated."""
        of_class = [
            str((each.get("cel") or {}).get("expression")) for each in request.device_class["spec"].get("selectors") or ()
        ]
        if expression in of_class:
            return f"class {name_of(request.device_class)}: selector #{of_class.index(expression)}: {error}"
        position = request.expressions.index(expression) - len(of_class)
        return f"request {request.full}: selector #{position}: {error}"

    def _is_free(self, claim: int, request: _Request, device: Device) -> bool:
        features = self._given.features
        if device.entry.get("consumesCounters") and not features.partitionable:
            return False
        if features.taints and device_taints.repels(device.entry, request.asked.get("tolerations") or ()):
            return False
        shared = device.shared and features.consumable
        holders = self._whole.get(device.id)
        if request.admin:
            return shared or not (holders and holders[claim])
        return not (device.id in self._given.taken.whole or holders)

    def _amounts(self, request: _Request, device: Device) -> Mapping[str, Any] | None:
        if not self._given.features.consumable:
            return {}
        used = Counter(self._given.taken.capacity.get(device.id) or {})
        used.update(self._used.get(device.id) or {})
        return capacity.taken(device.id.driver, device.entry, request.amounts, used)

    def _take(self, claim: int, request: _Request, device: Device, amounts: Mapping[str, Any], sign: int) -> None:
        shared = device.shared and self._given.features.consumable
        if sign > 0:
            share = self._given.new_id() if shared else ""
            self._chosen[claim].append(_Chosen(request, device, amounts if shared else {}, share))
        else:
            self._chosen[claim].pop()
        if shared:
            used = self._used.setdefault(device.id, Counter())
            for name, amount in amounts.items():
                used[name] += sign * amount.nanos
            return
        holders = self._whole.setdefault(device.id, Counter())
        holders[claim] += sign
        if not +holders:
            del self._whole[device.id]

    def _push(self, claim: int, request: _Request, device: Device) -> list[Constraint] | None:
        held: list[Constraint] = []
        for constraint in self._constraints[claim]:
            if not constraint.applies(request.name, request.full):
                continue
            if not constraint.push(device):
                for other in held:
                    other.pop()
                return None
            held.append(constraint)
        return held

    # Counters that devices of a pool have in common: partitions of one device

    def _count(self, device: Device, sign: int) -> bool:
        """Take from the counters, or give back; False, and nothing is taken, if there is not enough left.

        What several share counts once.
        """
        needs = consumed(device.entry)
        if not needs:
            return True
        self._shares[device.id] += sign
        if self._given.taken.has(device.id) or self._shares[device.id] != (1 if sign > 0 else 0):
            return True
        pool = self._given.catalogue.pools[device.id.driver, device.id.pool]
        left = self._left(pool)
        flat = {(name, counter): amount for name, taken in needs.items() for counter, amount in taken.items()}
        if sign > 0 and any(left.get(key, 0) < amount for key, amount in flat.items()):
            self._shares[device.id] -= sign
            return False
        for key, amount in flat.items():
            left[key] -= sign * amount
        return True

    def _left(self, pool: Pool) -> dict[tuple[str, str], int]:
        key = str(pool)
        if key not in self._counted:
            left = {(name, counter): value for name, held in (pool.counters or {}).items() for counter, value in held.items()}
            for device in pool.devices:
                if self._given.taken.has(device.id):
                    for name, taken in consumed(device.entry).items():
                        for counter, amount in taken.items():
                            left[name, counter] -= amount
            self._counted[key] = left
        return self._counted[key]

    # The result

    def results(self) -> list[Allocation]:
        return [self._allocation(*each) for each in zip(self._claims, self._picked, self._chosen, strict=True)]

    def _allocation(self, claim: Object, picked: Sequence[_Request], chosen: Sequence[_Chosen]) -> Allocation:
        devices: dict[str, Any] = {"results": [_result(each, self._given.features) for each in chosen]}
        if configured := list(_configuration(claim, picked)):
            devices["config"] = configured
        made: Allocation = {"devices": devices}
        if selector := node_selector([each.device for each in chosen], name_of(self._node)):
            made["nodeSelector"] = selector
        return made


def _requests(claim: Object) -> Sequence[Mapping[str, Any]]:
    return ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ()


def _result(chosen: _Chosen, features: Features) -> dict[str, Any]:
    driver, pool, name = chosen.device.id
    made: dict[str, Any] = {"request": chosen.request.full, "driver": driver, "pool": pool, "device": name}
    if chosen.request.admin:
        made["adminAccess"] = True
    if tolerations := chosen.request.asked.get("tolerations"):
        made["tolerations"] = tolerations
    if features.binding:
        made |= {key: chosen.device.entry[key] for key in _FIELDS_OF_DEVICE if chosen.device.entry.get(key)}
    if chosen.share:
        made["shareID"] = chosen.share
    if chosen.amounts:
        made["consumedCapacity"] = {name: str(amount) for name, amount in chosen.amounts.items()}
    return made


def _configuration(claim: Object, picked: Sequence[_Request]) -> Iterator[dict[str, Any]]:
    """What drivers are to know: the classes' configuration first, then the claim's, which may overrule it."""
    for request in picked:
        for each in (request.device_class.get("spec") or {}).get("config") or ():
            yield {"source": "FromClass", **each}
    names = {name for request in picked for name in (request.name, request.full)}
    for each in (claim["spec"].get("devices") or {}).get("config") or ():
        if not each.get("requests") or names.intersection(each["requests"]):
            yield {"source": "FromClaim", **each}


def node_selector(devices: Sequence[Device], node: str) -> dict[str, Any] | None:
    """Where the devices can be used; None for anywhere. One term: all of what each of them asks."""
    fields: list[dict[str, Any]] = []
    expressions: list[dict[str, Any]] = []
    for device in devices:
        if device.place.get("nodeName") or device.entry.get("bindsToNode"):
            name = {"key": "metadata.name", "operator": "In", "values": [node]}
            return {"nodeSelectorTerms": [{"matchFields": [name]}]}
        for term in (device.place.get("nodeSelector") or {}).get("nodeSelectorTerms") or ():
            fields += [each for each in term.get("matchFields") or () if each not in fields]
            expressions += [each for each in term.get("matchExpressions") or () if each not in expressions]
    term = {key: value for key, value in (("matchFields", fields), ("matchExpressions", expressions)) if value}
    return {"nodeSelectorTerms": [term]} if term else None


__all__ = ["Allocation", "AllocationError", "Features", "Given", "Offer", "OutOfTimeError", "allocate", "node_selector"]

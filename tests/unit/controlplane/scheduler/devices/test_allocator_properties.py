"""The allocator beside a search that tries everything and knows no order: both find something, or neither does.

What is found is judged by rules written down anew here, from the documentation of the API, not by the allocator's own.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import given as generated
from hypothesis import settings
from hypothesis import strategies as st

from apimachinery.meta import Object
from controlplane.scheduler.devices.allocator import Allocation, allocate
from tests.unit.controlplane.scheduler.devices.made import (
    NODE,
    attributes,
    choice,
    claim,
    device,
    either,
    exactly,
    given,
    held,
    slice_of,
)

_FREE = {"operator": "Exists"}


@st.composite
def entries(draw: st.DrawFn, number: int) -> Object:
    entry = device(f"d{number}", attributes=attributes(side=draw(st.integers(0, 1)), rank=draw(st.integers(0, 2))))
    if draw(st.booleans()):
        entry["consumesCounters"] = [{"counterSet": "c", "counters": {"m": {"value": str(draw(st.integers(1, 3)))}}}]
    if draw(st.integers(0, 3)) == 0:
        entry["taints"] = [{"key": "t", "effect": "NoSchedule"}]
    if draw(st.integers(0, 2)) == 0:
        entry["allowMultipleAllocations"] = True
        entry["capacity"] = {"cap": {"value": "4", "requestPolicy": {"default": "2", "validRange": {"min": "1", "step": "1"}}}}
    return entry


@st.composite
def asked(draw: st.DrawFn) -> dict[str, Any]:
    made: dict[str, Any] = {"count": draw(st.integers(1, 2))}
    if draw(st.booleans()):
        made["where"] = f'device.attributes["gpu.example.com"].side == {draw(st.integers(0, 1))}'
    if draw(st.booleans()):
        made["tolerations"] = [_FREE]
    if draw(st.integers(0, 3)) == 0:
        made["capacity"] = {"requests": {"cap": str(draw(st.integers(1, 4)))}}
    return made


@st.composite
def wishes(draw: st.DrawFn) -> Object:
    requests = []
    for number in range(draw(st.integers(1, 2))):
        if draw(st.booleans()):
            requests.append(exactly(f"r{number}", **draw(asked())))
        else:
            requests.append(either(choice("x", **draw(asked())), choice("y", **draw(asked())), name=f"r{number}"))
    kinds = draw(st.lists(st.sampled_from(["matchAttribute", "distinctAttribute"]), max_size=1))
    return claim(*requests, constraints=[{kind: "gpu.example.com/rank"} for kind in kinds])


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Object], list[Object], list[str]]:
    listed = [draw(entries(number)) for number in range(draw(st.integers(1, 4)))]
    taken = [each["name"] for each in listed if not each.get("allowMultipleAllocations") and draw(st.integers(0, 3)) == 0]
    return listed, [draw(wishes()) for _ in range(draw(st.integers(1, 2)))], taken


@settings(max_examples=100, deadline=None)
@generated(cases())
def test_finds_a_solution_exactly_when_there_is_one(case: tuple[list[Object], list[Object], list[str]]) -> None:
    listed, claims, taken = case
    slices = [
        slice_of(*listed, name="devices", of=2),
        slice_of(name="counters", of=2, sharedCounters=[{"name": "c", "counters": {"m": {"value": "4"}}}]),
    ]
    found = allocate(given(*slices, held=[held(*taken)]), NODE, claims)
    if found is None:
        assert not any(is_valid(listed, claims, guess, taken) for guess in every_guess(listed, claims))
    else:
        assert is_valid(listed, claims, plain(found), taken)


Guess = list[list[tuple[str, str]]]
"""For each claim, (request, device)."""


def plain(found: Sequence[Allocation]) -> Guess:
    return [[(result["request"], result["device"]) for result in each["devices"]["results"]] for each in found]


def every_guess(listed: Sequence[Object], claims: Sequence[Object]) -> Iterator[Guess]:
    names = [each["name"] for each in listed]
    shape = [len(one["spec"]["devices"]["requests"]) for one in claims]
    ways = [ways_of(request, names) for one in claims for request in one["spec"]["devices"]["requests"]]
    for combined in itertools.product(*ways):
        rest = iter(combined)
        yield [[pair for _ in range(size) for pair in next(rest)] for size in shape]


def ways_of(request: Object, names: Sequence[str]) -> list[list[tuple[str, str]]]:
    picked = itertools.combinations_with_replacement
    return [[(full, name) for name in chosen] for full, what in alternatives(request) for chosen in picked(names, what["count"])]


def alternatives(request: Object) -> list[tuple[str, Object]]:
    if "exactly" in request:
        return [(request["name"], request["exactly"])]
    return [(f"{request['name']}/{each['name']}", each) for each in request["firstAvailable"]]


def is_valid(listed: Sequence[Object], claims: Sequence[Object], guess: Guess, taken: Sequence[str]) -> bool:
    by_name = {each["name"]: each for each in listed}
    uses = Counter(name for each in guess for _, name in each)
    capacity: Counter[str] = Counter()
    for one, pairs in zip(claims, guess, strict=True):
        if not _is_answered(one, pairs):
            return False
        what = {full: each for request in one["spec"]["devices"]["requests"] for full, each in alternatives(request)}
        for full, name in pairs:
            amount = _fits(by_name[name], what[full])
            if amount is None:
                return False
            capacity[name] += amount
        ranks = [by_name[name]["attributes"]["rank"]["int"] for _, name in pairs]
        for constraint in one["spec"]["devices"].get("constraints") or ():
            distinct = len(set(ranks))
            if distinct != (1 if "matchAttribute" in constraint else len(ranks)):
                return False
    for name, count in uses.items():
        if name in taken or (count > 1 and not by_name[name].get("allowMultipleAllocations")) or capacity[name] > 4:
            return False
    counted = sum(_counter(by_name[name]) for name in {*uses, *taken})
    # What is taken may exceed the counters already; only a new device asks for more.
    return counted <= 4 or not any(_counter(by_name[name]) for name in uses)


def _is_answered(one: Object, pairs: Sequence[tuple[str, str]]) -> bool:
    for request in one["spec"]["devices"]["requests"]:
        mine = Counter(full for full, _ in pairs if full.partition("/")[0] == request["name"])
        if not any(mine == Counter({full: what["count"]}) for full, what in alternatives(request)):
            return False
    return True


def _fits(entry: Object, what: Object) -> int | None:
    """The capacity that is taken, or None if the device does not answer the request."""
    if entry.get("taints") and not what.get("tolerations"):
        return None
    for each in what.get("selectors") or ():
        if entry["attributes"]["side"]["int"] != int(each["cel"]["expression"][-1]):
            return None
    wanted = ((what.get("capacity") or {}).get("requests") or {}).get("cap")
    if "capacity" not in entry:
        return None if wanted else 0
    return int(wanted or 2)


def _counter(entry: Object) -> int:
    return sum(int(each["counters"]["m"]["value"]) for each in entry.get("consumesCounters") or ())

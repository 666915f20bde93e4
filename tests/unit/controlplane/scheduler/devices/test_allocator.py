"""Which devices claims get on a node, one rule per test."""

from typing import Any

import pytest

from apimachinery.meta import Object
from controlplane.scheduler.devices.allocator import AllocationError, Features, OutOfTimeError, allocate
from tests.unit.controlplane.scheduler.devices.made import (
    NODE,
    allocated,
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

FOUR = slice_of(*(device(f"gpu-{number}", attributes=attributes(numa=number // 2, big=number == 3)) for number in range(4)))


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        pytest.param([exactly()], [["gpu-0"]], id="the first that fits"),
        pytest.param([exactly(count=3)], [["gpu-0", "gpu-1", "gpu-2"]], id="count"),
        pytest.param([exactly(count=5)], None, id="more than there are"),
        pytest.param([exactly(allocationMode="All")], [["gpu-0", "gpu-1", "gpu-2", "gpu-3"]], id="all"),
        pytest.param([exactly("a"), exactly("b")], [["gpu-0", "gpu-1"]], id="two requests have two devices"),
        pytest.param([exactly(where='device.attributes["gpu.example.com"].big')], [["gpu-3"]], id="selector"),
        pytest.param(
            [exactly("a"), exactly("b", where='device.attributes["gpu.example.com"].numa == 0', count=2)],
            [["gpu-2", "gpu-0", "gpu-1"]],
            id="an early choice is given back",
        ),
        pytest.param([either(choice("x", count=9), choice("y", count=2))], [["gpu-0", "gpu-1"]], id="the second alternative"),
        pytest.param([exactly(where='has(device.attributes["other.example.com"].x)')], None, id="a domain that nobody names"),
        pytest.param([exactly(allocationMode="All", where="false")], None, id="all of none"),
    ],
)
def test_requests(requests: list[Object], expected: list[list[str]] | None) -> None:
    assert allocated([FOUR], claim(*requests)) == expected


def test_two_claims_do_not_share() -> None:
    assert allocated([FOUR], claim(exactly(count=2)), claim(exactly(count=2))) == [["gpu-0", "gpu-1"], ["gpu-2", "gpu-3"]]


def test_what_others_have_is_not_given_again() -> None:
    assert allocated([FOUR], claim(exactly()), held=[held("gpu-0", "gpu-1")]) == [["gpu-2"]]
    assert allocated([FOUR], claim(exactly(allocationMode="All")), held=[held("gpu-0")]) is None


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ({"matchAttribute": "gpu.example.com/numa"}, [["gpu-2", "gpu-3"]]),
        ({"distinctAttribute": "gpu.example.com/numa"}, [["gpu-1", "gpu-2"]]),
        ({"matchAttribute": "gpu.example.com/missing"}, None),
        ({"matchAttribute": "gpu.example.com/missing", "requests": ["other"]}, [["gpu-1", "gpu-2"]]),
    ],
)
def test_constraints(constraint: Object, expected: list[list[str]] | None) -> None:
    wanted = claim(exactly(count=2), constraints=[constraint])
    assert allocated([FOUR], wanted, held=[held("gpu-0")]) == expected


def test_admin_access_takes_what_others_use_and_keeps_nobody_out() -> None:
    looking = claim(exactly(allocationMode="All", adminAccess=True))
    assert allocated([FOUR], looking, held=[held("gpu-0")]) == [["gpu-0", "gpu-1", "gpu-2", "gpu-3"]]
    assert allocated([FOUR], claim(exactly(count=4)), held=[held("gpu-0", adminAccess=True)]) is not None


def test_taints() -> None:
    taint = {"key": "broken", "effect": "NoSchedule"}
    pool = slice_of(device("bad", taints=[taint]), device("noted", taints=[{**taint, "effect": "None"}]))
    assert allocated([pool], claim(exactly())) == [["noted"]]
    tolerant = exactly(tolerations=[{"key": "broken", "operator": "Exists"}])
    assert allocated([pool], claim(tolerant)) == [["bad"]]
    assert allocated([pool], claim(exactly()), features=Features(taints=False)) == [["bad"]]


def partition(name: str, memory: str, **more: Any) -> Object:
    return device(name, consumesCounters=[{"counterSet": "card", "counters": {"memory": {"value": memory}}}], **more)


CARD = [
    slice_of(partition("whole", "40Gi"), partition("half-0", "20Gi"), partition("half-1", "20Gi"), name="devices", of=2),
    slice_of(name="counters", of=2, sharedCounters=[{"name": "card", "counters": {"memory": {"value": "40Gi"}}}]),
]


@pytest.mark.parametrize(
    ("taken", "count", "expected"),
    [
        pytest.param([], 1, [["whole"]], id="all of the card"),
        pytest.param([], 2, [["half-0", "half-1"]], id="two halves, as the whole leaves nothing"),
        pytest.param(["half-1"], 1, [["half-0"]], id="no whole while a half is taken"),
        pytest.param(["whole"], 1, None, id="nothing left"),
    ],
)
def test_partitions(taken: list[str], count: int, expected: list[list[str]] | None) -> None:
    assert allocated(CARD, claim(exactly(count=count)), held=[held(*taken)]) == expected


def test_capacity_of_a_shared_device_is_used_up() -> None:
    net = device(
        "nic", allowMultipleAllocations=True, capacity={"bandwidth": {"value": "10G", "requestPolicy": {"default": "1G"}}}
    )

    def asking(amount: str, name: str) -> Object:
        return claim(exactly(capacity={"requests": {"bandwidth": amount}}), name=name)

    found = allocate(given(slice_of(net)), NODE, [asking("6G", "one"), asking("4G", "two")])
    assert found is not None
    results = [each["devices"]["results"][0] for each in found]
    assert [(result["shareID"], result["consumedCapacity"]) for result in results] == [
        ("share-0", {"bandwidth": "6G"}),
        ("share-1", {"bandwidth": "4G"}),
    ]
    holder: Object = {"metadata": {"name": "one"}, "status": {"allocation": found[0]}}
    assert allocated([slice_of(net)], asking("5G", "three"), held=[holder]) is None
    assert allocated([slice_of(net)], claim(exactly(count=4)), held=[holder]) == [["nic"] * 4]
    assert allocated([slice_of(net)], claim(exactly(count=5)), held=[holder]) is None


def test_a_capacity_that_the_device_lacks_is_not_given() -> None:
    wanted = claim(exactly(capacity={"requests": {"memory": "1Gi"}}))
    small = device("small", capacity={"memory": {"value": "512Mi"}})
    assert allocated([slice_of(device("none"), small, device("big", capacity={"memory": {"value": "2Gi"}}))], wanted) == [["big"]]


class TestPools:
    def test_only_the_newest_generation_counts(self) -> None:
        old, new = slice_of(device("old"), name="a"), slice_of(device("new"), name="b", generation=2)
        assert allocated([old, new], claim(exactly())) == [["new"]]

    def test_an_incomplete_pool_gives_nothing_and_all_has_to_wait(self) -> None:
        half = slice_of(device("half"), of=2)
        assert allocated([half], claim(exactly())) is None
        with pytest.raises(AllocationError, match=r"resource pool .*/here is currently being updated"):
            allocated([half], claim(exactly(allocationMode="All")))

    def test_a_pool_that_contradicts_itself_is_invalid(self) -> None:
        with pytest.raises(AllocationError, match="pool here is invalid: duplicate device name twice"):
            allocated([slice_of(device("twice"), device("twice"))], claim(exactly()))

    def test_places(self) -> None:
        zone = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
        elsewhere = slice_of(device("far"), pool="far", nodeName="there")
        per_device = slice_of(
            device("far-one", nodeName="there"), device("near-one", nodeSelector=zone), pool="mixed", perDeviceNodeSelection=True
        )
        found = allocate(given(elsewhere, per_device), NODE, [claim(exactly())])
        assert found is not None
        assert found[0]["devices"]["results"][0]["device"] == "near-one"
        assert found[0]["nodeSelector"] == zone
        local = allocate(given(FOUR), NODE, [claim(exactly())])
        assert local is not None
        name = {"key": "metadata.name", "operator": "In", "values": ["here"]}
        assert local[0]["nodeSelector"] == {"nodeSelectorTerms": [{"matchFields": [name]}]}
        assert "nodeSelector" not in (allocate(given(slice_of(device("x"), allNodes=True)), NODE, [claim(exactly())]) or [{}])[0]

    def test_devices_that_need_to_be_attached_first_come_last(self) -> None:
        waiting = slice_of(device("fabric", bindingConditions=["attached"], bindsToNode=True), pool="a", allNodes=True)
        plain = slice_of(device("plain"), pool="b")
        assert allocated([waiting, plain], claim(exactly())) == [["plain"]]
        found = allocate(given(waiting), NODE, [claim(exactly())])
        assert found is not None
        assert found[0]["devices"]["results"][0]["bindingConditions"] == ["attached"]
        assert "nodeSelector" in found[0]
        assert allocated([waiting], claim(exactly()), features=Features(binding=False)) is None


def test_configuration_of_the_class_comes_first_and_of_chosen_alternatives_only() -> None:
    opaque = {"opaque": {"driver": "gpu.example.com", "parameters": {"mode": "fast"}}}
    config = [{**opaque}, {**opaque, "requests": ["it/big"]}, {**opaque, "requests": ["it/small"]}]
    wanted = claim(either(choice("big", count=9), choice("small")), config=config)
    start = given(FOUR)
    start.classes["gpu"]["spec"]["config"] = [opaque]
    try:
        found = allocate(start, NODE, [wanted])
    finally:
        del start.classes["gpu"]["spec"]["config"]
    assert found is not None
    assert found[0]["devices"]["config"] == [
        {"source": "FromClass", **opaque},
        {"source": "FromClaim", **opaque},
        {"source": "FromClaim", **opaque, "requests": ["it/small"]},
    ]


def test_what_is_broken_is_named() -> None:
    with pytest.raises(AllocationError, match="request it: selector #0: no such key: none"):
        allocated([FOUR], claim(exactly(where='device.attributes["gpu.example.com"].none')))
    with pytest.raises(AllocationError, match="could not retrieve device class absent"):
        allocated([FOUR], claim(exactly(device_class="absent")))


def test_a_search_can_be_cut_off() -> None:
    steps = 0

    def check() -> None:
        nonlocal steps
        steps += 1
        if steps > 50:
            raise OutOfTimeError

    many = slice_of(*(device(f"d{number:02}", attributes=attributes(odd=number % 2)) for number in range(30)))
    impossible = claim(exactly(count=17), constraints=[{"matchAttribute": "gpu.example.com/odd"}])
    with pytest.raises(OutOfTimeError):
        allocated([many], impossible, check=check)

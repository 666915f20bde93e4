"""Hints for devices, in upstream's own cases (``topology_hints_test.go``): what fits where, and what is preferred."""

import pytest

from node.kubelet.cm.device_manager.devices import Device
from node.kubelet.cm.device_manager.topology_hints import hints


def shown(nodes: int, places: dict[str, tuple[int, ...]], available: str, reusable: str, count: int) -> dict[str, bool]:
    known = {name: Device(name, nodes=where) for name, where in places.items()}
    found = hints(range(nodes), known, set(available), set(reusable), count)
    return {"".join(map(str, sorted(each.affinity or ()))): each.preferred for each in found}


TWO = {"a": (0,), "b": (1,)}
FOUR = {"a": (0,), "b": (0,), "c": (1,), "d": (1,)}


@pytest.mark.parametrize(
    ("places", "available", "reusable", "count", "expected"),
    [
        pytest.param(TWO, "ab", "", 1, {"0": True, "1": True, "01": False}, id="one-each"),
        pytest.param(TWO, "b", "", 1, {"1": True, "01": False}, id="one-left"),
        pytest.param(TWO, "ab", "", 2, {"01": True}, id="both"),
        pytest.param(FOUR, "ac", "", 2, {"01": False}, id="would-have-fitted-on-one"),
        pytest.param(FOUR, "abcd", "", 2, {"0": True, "1": True, "01": False}, id="two-of-four"),
        pytest.param(FOUR, "cd", "ab", 2, {"0": True, "01": False}, id="must-cover-reusable"),
        pytest.param(FOUR, "", "ac", 2, {"01": False}, id="reusable-on-both"),
        pytest.param({"a": (0, 1), "b": (1,)}, "ab", "", 2, {"1": True, "01": False}, id="on-two-nodes"),
        pytest.param(FOUR, "a", "", 2, {}, id="too-few"),
    ],
)
def test_hints(places: dict[str, tuple[int, ...]], available: str, reusable: str, count: int, expected: dict[str, bool]) -> None:
    assert shown(2, places, available, reusable, count) == expected


def test_four_nodes() -> None:
    places = {str(node): (node,) for node in range(4)}
    found = shown(4, places, "0123", "", 2)
    assert len(found) == 11
    assert {name for name, preferred in found.items() if preferred} == {"01", "02", "03", "12", "13", "23"}

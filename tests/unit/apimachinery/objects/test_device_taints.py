from typing import Any

import pytest

from apimachinery.objects import device_taints

SLICE = {
    "spec": {"driver": "d", "pool": {"name": "p"}, "devices": [{"name": "one", "taints": [{"key": "own"}]}, {"name": "two"}]}
}


def rule(selector: dict[str, str] | None, key: str = "k") -> dict[str, Any]:
    return {"spec": {"deviceSelector": selector, "taint": {"key": key, "effect": "NoSchedule"}}}


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        (None, False),
        ({}, True),
        ({"driver": "d"}, True),
        ({"driver": "d", "pool": "p", "device": "one"}, True),
        ({"driver": "other"}, False),
        ({"pool": "other"}, False),
        ({"driver": "d", "device": "two"}, False),
    ],
)
def test_selects(selector: dict[str, str] | None, wanted: bool) -> None:
    assert device_taints.selects(rule(selector), "d", "p", "one") == wanted


def test_taints_of_rules_come_after_a_device_s_own() -> None:
    (found,) = device_taints.with_rules([SLICE], [rule({"device": "one"}, "a"), rule({"driver": "d"}, "b")])
    one, two = found["spec"]["devices"]
    assert [each["key"] for each in one["taints"]] == ["own", "a", "b"]
    assert [each["key"] for each in two["taints"]] == ["b"]
    assert SLICE["spec"]["devices"][1] == {"name": "two"}  # type: ignore[index]


def test_what_no_rule_selects_stays_the_same_object() -> None:
    (found,) = device_taints.with_rules([SLICE], [rule({"driver": "other"})])
    assert found is SLICE

from typing import Any

import pytest

from tests.support.kinds import NOW, problems, strategy

Object = dict[str, Any]
CORE = strategy("events", group="")
NEW = strategy("events", group="events.k8s.io")

EVENT = {
    "metadata": {"name": "e", "namespace": "default"},
    "eventTime": "2026-11-30T11:59:00.000000Z",
    "reportingController": "kubelet",
    "reportingInstance": "n1",
    "action": "Pulling",
    "reason": "Pulled",
    "type": "Normal",
    "note": "done ",
    "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
}


def test_both_groups_show_one_object() -> None:
    stored = NEW.to_stored(EVENT)
    assert stored["apiVersion"] == "v1"
    assert (stored["message"], stored["involvedObject"]["name"], stored["reportingComponent"]) == ("done ", "p", "kubelet")
    assert NEW.from_stored(stored) == {**EVENT, "apiVersion": "events.k8s.io/v1"}
    assert NEW.row(EVENT, NOW) == CORE.row(stored, NOW)


def test_an_old_event_keeps_its_fields_under_new_names() -> None:
    stored = {"source": {"component": "a"}, "firstTimestamp": "t", "lastTimestamp": "u", "count": 2, "metadata": {}}
    shown = NEW.from_stored(stored)
    assert {key: shown[key] for key in shown if key.startswith("deprecated")} == {
        "deprecatedSource": {"component": "a"},
        "deprecatedFirstTimestamp": "t",
        "deprecatedLastTimestamp": "u",
        "deprecatedCount": 2,
    }


@pytest.mark.parametrize("field", ["eventTime", "reportingController", "reportingInstance", "action", "reason"])
def test_the_new_group_demands_more(field: str) -> None:
    event = {key: value for key, value in EVENT.items() if key != field}
    assert f"{field}: Required value" in problems(NEW, event)


@pytest.mark.parametrize(
    ("namespace", "about", "good"),
    [
        ("default", "default", True),
        ("default", "", True),
        ("a", "b", False),
        ("a", "", False),
        ("kube-system", "", True),
    ],
)
def test_an_event_lies_beside_its_object(namespace: str, about: str, good: bool) -> None:
    event = {"metadata": {"name": "e", "namespace": namespace}, "involvedObject": {"namespace": about}}
    assert (problems(CORE, event) == []) is good


ROWS: list[tuple[Object, list[Any]]] = [
    ({"lastTimestamp": "2026-11-30T11:59:50Z", "firstTimestamp": "2026-11-30T11:59:00Z", "count": 4}, ["10s", "60s", 4]),
    ({"eventTime": "2026-11-30T11:59:00.000000Z"}, ["60s", "60s", 1]),
    (
        {"eventTime": "2026-11-30T11:50:00.000000Z", "series": {"count": 7, "lastObservedTime": "2026-11-30T11:59:55.000000Z"}},
        ["5s", "10m", 7],
    ),
    ({}, ["<unknown>", "<unknown>", 1]),
]


@pytest.mark.parametrize(("times", "expected"), ROWS, ids=["old", "new", "series", "none"])
def test_times_and_counts(times: Object, expected: list[Any]) -> None:
    row = CORE.row({"metadata": {"name": "e"}, **times}, NOW)
    assert [row[0], row[7], row[8]] == expected


def test_row() -> None:
    assert NEW.row(EVENT, NOW)[1:7] == ["Normal", "Pulled", "pod/p", "", "kubelet, n1", "done"]


def test_selectable_fields() -> None:
    stored = NEW.to_stored(EVENT)
    values = CORE.selectable_fields(stored)
    assert values["involvedObject.name"] == "p"
    assert values["reportingComponent"] == "kubelet"
    assert NEW.selectable_fields(EVENT) == values
    assert set(NEW.selectable_aliases.values()) <= CORE.selectable_names

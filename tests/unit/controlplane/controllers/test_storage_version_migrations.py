from datetime import UTC, datetime

import pytest

from apimachinery.meta import Object, get_condition
from controlplane.controllers.storageversionmigrator import turns

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def migration(name: str, day: int, *conditions: str, resource: str = "widgets", group: str = "example.com") -> Object:
    return {
        "metadata": {"name": name, "creationTimestamp": f"2026-01-0{day}T00:00:00Z"},
        "spec": {"resource": {"resource": resource, "group": group}},
        "status": {"conditions": [{"type": each, "status": "True"} for each in conditions]},
    }


@pytest.mark.parametrize(
    ("listed", "wanted"),
    [
        ([], None),
        ([migration("a", 1, "Succeeded"), migration("b", 2, "Failed", "Running")], None),
        ([migration("b", 2), migration("a", 2), migration("c", 1, "Succeeded")], "a"),
        ([migration("late", 2), migration("early", 1)], "early"),
        ([migration("early", 1), migration("late", 2, "Running")], "late"),
    ],
)
def test_one_at_a_time(listed: list[Object], wanted: str | None) -> None:
    found = turns.next_of(listed)
    assert (found and found["metadata"]["name"]) == wanted


def test_resources_are_named_as_definitions_are() -> None:
    assert turns.resource_of(migration("a", 1)) == "widgets.example.com"
    assert turns.resource_of(migration("a", 1, resource="secrets", group="")) == "secrets"


@pytest.mark.parametrize(("failure", "over"), [(None, "Succeeded"), ("no luck", "Failed")])
def test_conditions_on_the_way(failure: str | None, over: str) -> None:
    held = migration("a", 1)
    turns.begin(held, NOW)
    assert turns.is_running(held)
    turns.go_on(held, "7", NOW)
    assert held["status"]["resourceVersion"] == "7"
    assert (get_condition(held, "Running") or {})["reason"] == "StorageVersionMigrationInProgress"
    turns.end(held, failure, NOW)
    assert turns.is_over(held)
    assert not turns.is_running(held)
    found = get_condition(held, over) or {}
    assert found["reason"] == f"StorageVersionMigration{over}"
    assert found["message"] == (f"migration encountered unhandled error: {failure}" if failure else "")

"""What a DELETE does to an object, decided without a store."""

from datetime import UTC, datetime
from typing import Any

import pytest

from apimachinery.errors import StatusError
from controlplane.apiserver.registry import deletion

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def graceful(obj: dict[str, Any], options: dict[str, Any]) -> bool:
    options.setdefault("gracePeriodSeconds", 30)
    return True


def at_once(obj: dict[str, Any], options: dict[str, Any]) -> bool:
    return False


def test_graceful_deletion_counts_from_now_and_is_a_change_of_the_spec() -> None:
    obj = {"metadata": {"name": "p", "generation": 1}}
    assert deletion.mark(obj, {}, NOW, graceful)
    assert obj["metadata"] == {
        "name": "p",
        "generation": 2,
        "deletionTimestamp": "2026-01-01T00:00:30Z",
        "deletionGracePeriodSeconds": 30,
    }
    assert not deletion.ready_to_go(obj)


@pytest.mark.parametrize(
    ("asked", "changed", "timestamp"),
    [
        pytest.param(None, False, "2026-01-01T00:00:30Z", id="again"),
        pytest.param(60, False, "2026-01-01T00:00:30Z", id="never-longer"),
        pytest.param(5, True, "2026-01-01T00:00:05Z", id="shorter"),
        pytest.param(0, True, "2026-01-01T00:00:00Z", id="now"),
        pytest.param(-1, True, "2026-01-01T00:00:00Z", id="negative-is-now"),
    ],
)
def test_a_grace_period_can_only_be_shortened(asked: int | None, changed: bool, timestamp: str) -> None:
    obj: dict[str, Any] = {"metadata": {"name": "p"}}
    deletion.mark(obj, {}, NOW, graceful)
    options = {} if asked is None else {"gracePeriodSeconds": asked}
    assert deletion.mark(obj, options, NOW, graceful) is changed
    assert obj["metadata"]["deletionTimestamp"] == timestamp


def test_without_grace_an_object_goes_when_nothing_holds_it() -> None:
    obj: dict[str, Any] = {"metadata": {"name": "c"}}
    assert deletion.mark(obj, {}, NOW, at_once)
    deletion.mark_now(obj, NOW)
    assert deletion.ready_to_go(obj)
    obj["metadata"]["finalizers"] = ["example.com/x"]
    assert not deletion.ready_to_go(obj)


@pytest.mark.parametrize(
    ("held", "options", "orphan_by_default", "expected"),
    [
        pytest.param([], {}, False, [], id="background-by-default"),
        pytest.param([], {}, True, ["orphan"], id="orphan-by-default"),
        pytest.param([], {"propagationPolicy": "Foreground"}, True, ["foregroundDeletion"], id="foreground"),
        pytest.param([], {"orphanDependents": True}, False, ["orphan"], id="old-flag"),
        pytest.param(["orphan", "a/b"], {"propagationPolicy": "Background"}, False, ["a/b"], id="taken-back"),
        pytest.param(["foregroundDeletion"], {}, False, ["foregroundDeletion"], id="kept"),
    ],
)
def test_finalizers_of_the_collector(
    held: list[str], options: dict[str, Any], orphan_by_default: bool, expected: list[str]
) -> None:
    obj: dict[str, Any] = {"metadata": {"finalizers": held}}
    deletion.set_collection_finalizers(obj, options, orphan_by_default)
    assert obj["metadata"].get("finalizers", []) == expected


@pytest.mark.parametrize(
    "options",
    [{"propagationPolicy": "Sideways"}, {"propagationPolicy": "Orphan", "orphanDependents": True}],
    ids=["unknown", "contradiction"],
)
def test_options_must_make_sense(options: dict[str, Any]) -> None:
    with pytest.raises(StatusError) as refusal:
        deletion.validate_options(options)
    assert refusal.value.code == 422

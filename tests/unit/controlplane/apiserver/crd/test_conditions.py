"""Which names a definition gets, and what its conditions say of that."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.apiserver.crd import conditions
from controlplane.apiserver.crd.lifecycle import must_wait, plan

Object = dict[str, Any]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = st.sampled_from(["a", "b", "c", "d"])


def crd(plural: str = "widgets", kind: str = "Widget", group: str = "example.com", **names: Any) -> Object:
    wanted = {"plural": plural, "kind": kind, "singular": kind.lower(), "listKind": f"{kind}List", **names}
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "names": wanted},
        "status": {"acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"]},
    }


def planned(one: Object, others: list[Object], *, at_once: bool = True) -> Object:
    return {**one, "status": plan(one, others, NOW, at_once=at_once)}


def said(one: Object) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in one["status"]["conditions"]}


def test_a_definition_alone_gets_its_names_and_is_established() -> None:
    found = planned(crd(shortNames=["wd"], categories=["all"]), [])
    assert found["status"]["acceptedNames"] == found["spec"]["names"]
    assert said(found) == {"NamesAccepted": ("True", "NoConflicts"), "Established": ("True", "InitialNamesAccepted")}
    assert found["status"]["storedVersions"] == ["v1"]


def test_with_other_servers_it_is_established_later() -> None:
    found = planned(crd(), [], at_once=False)
    assert said(found)["Established"] == ("False", "Installing")
    assert must_wait(found["status"])
    assert not must_wait(planned(found, [])["status"])


@pytest.mark.parametrize(
    ("names", "reason", "message"),
    [
        ({"singular": "widget"}, "SingularConflict", '"widget" is already in use'),
        ({"shortNames": ["widgets"]}, "ShortNamesConflict", '"widgets" is already in use'),
        ({"shortNames": ["widgets", "wd"]}, "ShortNamesConflict", '["widgets" is already in use, "wd" is already in use]'),
        ({"kind": "Widget", "listKind": "Others"}, "KindConflict", '"Widget" is already in use'),
        ({"listKind": "WidgetList"}, "ListKindConflict", '"WidgetList" is already in use'),
    ],
)
def test_what_another_definition_holds_is_refused(names: Object, reason: str, message: str) -> None:
    holder = planned(crd(shortNames=["wd"]), [])
    found = planned(crd("gadgets", **{"kind": "Gadget", **names}), [holder])
    assert said(found) == {"NamesAccepted": ("False", reason), "Established": ("False", "NotAccepted")}
    assert next(each["message"] for each in found["status"]["conditions"]) == message
    assert found["status"]["acceptedNames"]["plural"] == "gadgets"


def test_a_definition_that_loses_a_name_stays_established() -> None:
    holder = planned(crd(), [])
    other = planned(crd("gadgets", "Gadget"), [holder])
    other["spec"]["names"] = {**other["spec"]["names"], "shortNames": ["widgets"]}
    found = planned(other, [holder])
    assert said(found) == {"NamesAccepted": ("False", "ShortNamesConflict"), "Established": ("True", "InitialNamesAccepted")}


def test_short_names_may_repeat_the_own_plural() -> None:
    found = planned(planned(crd(shortNames=["widgets"]), []), [])
    assert said(found)["NamesAccepted"] == ("True", "NoConflicts")


@given(st.lists(st.tuples(NAMES, NAMES, st.lists(NAMES, max_size=2)), min_size=1, max_size=4), st.data())
def test_no_name_is_accepted_twice_and_the_plan_comes_to_rest(
    wishes: list[tuple[str, str, list[str]]], data: st.DataObject
) -> None:
    held = [
        crd(f"{number}s", f"K{number}", singular=singular, listKind=list_kind, shortNames=short)
        for number, (singular, list_kind, short) in enumerate(wishes)
    ]
    for _ in range(2):
        for at in data.draw(st.permutations(range(len(held)))):
            held[at] = planned(held[at], [other for other in held if other is not held[at]])
    for at, one in enumerate(held):
        own = _resources(one)
        for other in held[at + 1 :]:
            assert not own & _resources(other)
        others = [other for other in held if other is not one]
        settled = plan(one, others, NOW + timedelta(hours=1), at_once=True)
        assert settled == plan({**one, "status": settled}, others, NOW + timedelta(hours=2), at_once=True)


def _resources(one: Object) -> set[str]:
    names = one["status"].get("acceptedNames") or {}
    return {name for name in (names.get("plural"), names.get("singular"), *(names.get("shortNames") or ())) if name}


@pytest.mark.parametrize(
    ("annotation", "status", "reason", "begins"),
    [
        (None, "False", "MissingAnnotation", "protected groups must have approval annotation"),
        ("unapproved, for a test", "False", "UnapprovedAnnotation", 'not approved: "unapproved, for a test"'),
        ("https://github.com/kubernetes/kubernetes/pull/1", "True", "ApprovedAnnotation", "approved in https://github.com/"),
        ("anything", "False", "InvalidAnnotation", "protected groups must have approval annotation"),
    ],
)
def test_groups_of_the_community_need_approval(annotation: str | None, status: str, reason: str, begins: str) -> None:
    one = crd(group="stable.k8s.io")
    if annotation is not None:
        one["metadata"]["annotations"] = {conditions.APPROVED_BY: annotation}
    found = conditions.find(planned(one, [])["status"], conditions.API_APPROVAL)
    assert found is not None
    assert (found["status"], found["reason"]) == (status, reason)
    assert found["message"].startswith(begins)


def test_other_groups_need_none() -> None:
    assert conditions.find(planned(crd(group="k8s.io.example.com"), [])["status"], conditions.API_APPROVAL) is None


def test_the_time_of_a_condition_moves_with_its_value_alone() -> None:
    first = conditions.put({}, conditions.condition("X", True, "One", ""), NOW)
    later = conditions.put(first, conditions.condition("X", True, "Two", ""), NOW + timedelta(hours=1))
    turned = conditions.put(later, conditions.condition("X", False, "Three", ""), NOW + timedelta(hours=2))
    times = [each["conditions"][0]["lastTransitionTime"] for each in (first, later, turned)]
    assert times == ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2026-01-01T02:00:00Z"]


def test_a_definition_that_is_deleted_waits_for_its_instances() -> None:
    one = planned(crd(), [])
    conditions.leave(one, NOW)
    conditions.leave(one, NOW)
    assert one["metadata"]["finalizers"] == [conditions.FINALIZER]
    assert said(one)["Terminating"] == ("True", "InstanceDeletionPending")

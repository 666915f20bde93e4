"""Who ends when before the machine stops."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from node.kubelet.shutdown import plan
from node.kubelet.shutdown.plan import Group

CRITICAL = 2_000_000_000


def pod(priority: int, grace: int | None = 30) -> dict[str, Any]:
    return {"spec": {"priority": priority, "terminationGracePeriodSeconds": grace}}


def test_two_periods_are_two_groups() -> None:
    assert plan.groups_of(30, 10) == (Group(0, 20), Group(CRITICAL, 10))
    assert plan.groups_of(0, 0) == ()


def test_a_list_by_priority_is_sorted() -> None:
    assert plan.groups_of(0, 0, [Group(100, 5), Group(0, 60)]) == (Group(0, 60), Group(100, 5))
    assert plan.inhibit_seconds([Group(0, 60), Group(100, 5)]) == 65


@pytest.mark.parametrize(("own", "seconds"), [(5, 5), (90, 20), (None, 20)])
def test_a_pod_has_its_own_grace_within_that_of_its_group(own: int | None, seconds: int) -> None:
    assert plan.grace(Group(0, 20), pod(0, own)) == seconds


@given(
    st.lists(st.builds(Group, st.integers(-100, 100), st.integers(1, 60)), min_size=1, unique_by=lambda group: group.priority),
    st.lists(st.integers(-200, 200)),
)
def test_every_pod_ends_once_and_never_before_a_lower_group(groups: list[Group], priorities: list[int]) -> None:
    ordered = plan.groups_of(0, 0, groups)
    assigned = plan.assign(ordered, [pod(each) for each in priorities])

    assert sorted(each["spec"]["priority"] for _, members in assigned for each in members) == sorted(priorities)
    highest = -1000
    for _, members in assigned:
        assert members
        assert min(each["spec"]["priority"] for each in members) >= highest
        highest = max(each["spec"]["priority"] for each in members)

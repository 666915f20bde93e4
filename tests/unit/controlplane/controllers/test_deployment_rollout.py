from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apimachinery.meta import Object, name_of
from controlplane.controllers.deployment import rollout


def deployment(replicas: int, surge: int | str = 1, unavailable: int | str = 1, **status: Any) -> Object:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}},
        "status": status,
    }


def replica_set(name: str, replicas: int, available: int | None = None, *, age: int = 0, **annotations: str) -> Object:
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "creationTimestamp": f"2026-01-01T00:00:{59 - age:02}Z",
            "annotations": {f"deployment.kubernetes.io/{key.replace('_', '-')}": text for key, text in annotations.items()},
        },
        "spec": {"replicas": replicas},
        "status": {"availableReplicas": replicas if available is None else available, "replicas": replicas},
    }


def sizes(steps: list[rollout.Resize]) -> dict[str, int]:
    return {name_of(step.replica_set): step.replicas for step in steps}


@pytest.mark.parametrize(
    ("wanted", "surge", "old", "new", "expected"),
    [
        pytest.param(10, 2, 10, 0, {"new": 2}, id="surge-only"),
        pytest.param(10, 2, 8, 2, {"new": 4}, id="room-made-by-old"),
        pytest.param(10, 0, 10, 0, {}, id="no-room"),
        pytest.param(10, 5, 0, 12, {"new": 10}, id="too-many"),
        pytest.param(10, "25%", 10, 0, {"new": 3}, id="surge-rounds-up"),
        pytest.param(3, 1, 0, 3, {}, id="done"),
    ],
)
def test_new_set_grows_as_surge_allows(wanted: int, surge: int | str, old: int, new: int, expected: dict[str, int]) -> None:
    assert sizes(rollout.grow_new(deployment(wanted, surge), replica_set("new", new), [replica_set("old", old)])) == expected


@pytest.mark.parametrize(
    ("unavailable", "old", "new", "expected"),
    [
        pytest.param(2, [("old", 10, 10)], ("new", 0, 0), {"old": 8}, id="down-to-minimum"),
        pytest.param(0, [("old", 10, 10)], ("new", 0, 0), {}, id="nothing-spare"),
        pytest.param(0, [("old", 10, 10)], ("new", 2, 1), {"old": 9}, id="one-new-is-available"),
        pytest.param(2, [("old", 10, 8)], ("new", 0, 0), {"old": 8}, id="unhealthy-first"),
        pytest.param(2, [("a", 5, 5), ("b", 5, 2)], ("new", 0, 0), {"b": 3}, id="unhealthy-of-any-set"),
        pytest.param(5, [("old", 5, 5)], ("new", 10, 0), {}, id="broken-new-set-drains-nothing"),
        pytest.param(1, [("old", 0, 0)], ("new", 10, 10), {}, id="none-left"),
        pytest.param(2, [("old", 5, 6)], ("new", 4, 4), {"old": 4}, id="status-behind-its-own-shrinking"),
    ],
)
def test_old_sets_shrink_while_enough_is_available(
    unavailable: int, old: list[tuple[str, int, int]], new: tuple[str, int, int], expected: dict[str, int]
) -> None:
    held = [replica_set(*each, age=9 - position) for position, each in enumerate(old)]
    assert sizes(rollout.shrink_old(deployment(10, 1, unavailable), replica_set(*new), held)) == expected


@pytest.mark.parametrize(
    ("wanted", "sets", "expected"),
    [
        pytest.param(5, [replica_set("new", 3, desired_replicas="3")], {"new": 5}, id="only-one"),
        pytest.param(0, [replica_set("new", 3)], {"new": 0}, id="to-zero"),
        pytest.param(
            20,
            [replica_set("new", 5, max_replicas="11"), replica_set("old", 6, max_replicas="11", age=5)],
            {"new": 10, "old": 11},
            id="in-proportion",
        ),
        pytest.param(
            2,
            [replica_set("new", 5, max_replicas="11"), replica_set("old", 6, max_replicas="11", age=5)],
            {"new": 1, "old": 2},
            id="shrinks-in-proportion",
        ),
    ],
)
def test_scale(wanted: int, sets: list[Object], expected: dict[str, int]) -> None:
    assert sizes(rollout.scale(deployment(wanted, 1), sets[0], sets)) == expected


def test_saturated_rollout_drops_the_old_sets() -> None:
    new = replica_set("new", 3, desired_replicas="3")
    assert sizes(rollout.scale(deployment(3), new, [new, replica_set("old", 2)])) == {"old": 0}


@pytest.mark.parametrize(("recorded", "expected"), [("3", True), ("5", False), ("", False)])
def test_is_scaling(recorded: str, expected: bool) -> None:
    assert rollout.is_scaling(deployment(5), [replica_set("new", 3, desired_replicas=recorded)]) is expected


@given(st.integers(1, 12), st.integers(1, 4), st.integers(0, 4), st.lists(st.integers(0, 3), min_size=2, max_size=6))
def test_what_old_sets_report_late_leaves_enough(replicas: int, surge: int, unavailable: int, becoming: list[int]) -> None:
    """Specs are followed at once, an old set's status comes late: what is left must not fall below the minimum."""
    web = deployment(replicas, surge, unavailable)
    old, fresh = replica_set("old", replicas), replica_set("new", 0)
    for more in becoming:
        for step in [*rollout.grow_new(web, fresh, [old]), *rollout.shrink_old(web, fresh, [old])]:
            step.replica_set["spec"]["replicas"] = step.replicas
        left = sum(min(each["status"]["availableReplicas"], each["spec"]["replicas"]) for each in (old, fresh))
        assert left >= replicas - rollout.max_unavailable(web)
        fresh["status"]["availableReplicas"] = min(fresh["status"]["availableReplicas"] + more, fresh["spec"]["replicas"])


@given(st.integers(1, 9), st.integers(0, 4), st.integers(0, 4), st.text("DONon", min_size=40, max_size=40))
def test_there_are_never_more_pods_than_surge_allows(replicas: int, surge: int, unavailable: int, turns: str) -> None:
    """The Deployment's loop (D), each set's loop making or deleting pods (O, N) and saying so (o, n), in any order."""
    web = deployment(replicas, surge, unavailable if surge else max(unavailable, 1))
    old, fresh = replica_set("old", replicas), replica_set("new", 0)
    pods = {"old": replicas, "new": 0}
    for turn in turns:
        if turn == "D":
            for step in rollout.grow_new(web, fresh, [old]) or rollout.shrink_old(web, fresh, [old]):
                step.replica_set["spec"]["replicas"] = step.replicas
        for each, acts, says in ((old, "O", "o"), (fresh, "N", "n")):
            if turn == acts:
                pods[name_of(each)] = each["spec"]["replicas"]
            elif turn == says:
                each["status"] = {"replicas": pods[name_of(each)], "availableReplicas": pods[name_of(each)]}
        assert sum(pods.values()) <= replicas + surge


def test_a_rolling_update_ends() -> None:
    """Play the controller against pods that become available at once: never below the minimum, never above the maximum."""
    wanted = deployment(10, "25%", "25%")
    new, old = replica_set("new", 0), replica_set("old", 10)
    for _ in range(30):
        steps = rollout.grow_new(wanted, new, [old]) or rollout.shrink_old(wanted, new, [old])
        if not steps:
            break
        for step in steps:
            step.replica_set["spec"]["replicas"] = step.replicas
            step.replica_set["status"] = {"availableReplicas": step.replicas, "replicas": step.replicas}
        total = new["spec"]["replicas"] + old["spec"]["replicas"]
        assert 8 <= total <= 13
    assert (new["spec"]["replicas"], old["spec"]["replicas"]) == (10, 0)

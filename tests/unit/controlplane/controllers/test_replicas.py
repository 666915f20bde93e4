from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apimachinery.meta import Object, name_of
from apimachinery.times import format_time
from controlplane.controllers.lib import replicas

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def pod(name: str, *, node: str = "n1", phase: str = "Running", ready: float | None = 3600, **more: Any) -> Object:
    conditions = []
    if ready is not None:
        since = format_time(NOW - timedelta(seconds=ready))
        conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": since}]
    metadata: Object = {
        "name": name,
        "uid": name,
        "creationTimestamp": format_time(NOW - timedelta(seconds=more.get("age", 7200))),
    }
    cost = more.get("cost")
    if cost is not None:
        metadata["annotations"] = {"controller.kubernetes.io/pod-deletion-cost": cost}
    statuses = [{"restartCount": more.get("restarts", 0)}]
    return {
        "metadata": metadata,
        "spec": {"nodeName": node},
        "status": {"phase": phase, "conditions": conditions, "containerStatuses": statuses},
    }


@pytest.mark.parametrize(
    ("keeper", "victim"),
    [
        pytest.param(pod("a"), pod("b", node=""), id="unassigned"),
        pytest.param(pod("a"), pod("b", phase="Pending"), id="pending"),
        pytest.param(pod("a"), pod("b", ready=None), id="not-ready"),
        pytest.param(pod("a", cost="1"), pod("b", cost="-1"), id="cheaper"),
        pytest.param(pod("a"), pod("b", ready=60), id="ready-for-less-time"),
        pytest.param(pod("a"), pod("b", restarts=3), id="restarted"),
        pytest.param(pod("a"), pod("b", age=3700), id="younger"),
        pytest.param(pod("b", ready=3600), pod("a", ready=3500), id="similar-age-goes-by-uid"),
    ],
)
def test_victims(keeper: Object, victim: Object) -> None:
    for order in ([keeper, victim], [victim, keeper]):
        assert replicas.choose_victims(order, [], 1, NOW) == [victim]


def test_crowded_nodes_lose_first() -> None:
    here, there = pod("a", node="full"), pod("b", node="empty")
    related = [here, there, pod("c", node="full")]
    assert [name_of(each) for each in replicas.choose_victims([there, here], related, 1, NOW)] == ["a"]


@pytest.mark.parametrize(("wanted", "have", "create", "delete"), [(3, 1, 2, 0), (1, 3, 0, 2), (2, 2, 0, 0), (900, 0, 500, 0)])
def test_plan(wanted: int, have: int, create: int, delete: int) -> None:
    made = replicas.plan({"spec": {"replicas": wanted}}, [pod(str(n)) for n in range(have)], list, NOW)
    assert (made.create, len(made.delete)) == (create, delete)


def test_status_counts_and_failure() -> None:
    owner = {"metadata": {"generation": 4}, "spec": {"minReadySeconds": 100, "template": {"metadata": {"labels": {}}}}}
    active = [pod("a"), pod("b", ready=50), pod("c", ready=None)]
    status = replicas.next_status(owner, active, 1, replicas.Failure("FailedCreate", "no quota"), NOW)
    assert status == {
        "replicas": 3,
        "fullyLabeledReplicas": 3,
        "readyReplicas": 2,
        "availableReplicas": 1,
        "terminatingReplicas": 1,
        "observedGeneration": 4,
        "conditions": [
            {
                "type": "ReplicaFailure",
                "status": "True",
                "reason": "FailedCreate",
                "message": "no quota",
                "lastTransitionTime": "2026-01-01T12:00:00Z",
            }
        ],
    }
    assert replicas.next_look(owner, active, NOW) == pytest.approx(50.05)
    assert "conditions" not in replicas.next_status({**owner, "status": status}, active, 0, None, NOW)


@pytest.mark.parametrize(
    ("held", "wanted", "same"),
    [
        (None, {"replicas": 0}, True),
        ({"replicas": 0, "observedGeneration": 1}, {"replicas": 0, "observedGeneration": 1, "terminatingReplicas": 0}, True),
        ({"replicas": 1}, {"replicas": 2}, False),
    ],
)
def test_same_status(held: dict[str, Any] | None, wanted: dict[str, Any], same: bool) -> None:
    assert replicas.same_status(held, wanted) is same

from datetime import UTC, datetime
from typing import Any

import pytest

from apimachinery.meta import Object, name_of
from controlplane.controllers.statefulset import plan
from controlplane.controllers.statefulset.pods import claims, new_pod

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SAME = plan.Revisions("db-1", "db-1")
MOVING = plan.Revisions("db-1", "db-2")


def owner(replicas: int = 3, **spec: Any) -> Object:
    return {"metadata": {"name": "db", "namespace": "ns", "uid": "u"}, "spec": {"replicas": replicas, **spec}}


def pod(number: int, state: str = "ready", revision: str = "db-1") -> Object:
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}] if state == "ready" else []
    metadata: Object = {"name": f"db-{number}", "labels": {"controller-revision-hash": revision}}
    if state == "deleting":
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    phase = {"failed": "Failed", "pending": "Pending"}.get(state, "Running")
    return {"metadata": metadata, "status": {"phase": phase, "conditions": conditions}}


def step(of: Object, members: list[Object], revisions: plan.Revisions = SAME) -> tuple[list[int], list[str]]:
    made = plan.next_step(of, members, revisions, NOW)
    return sorted(made.create), [name_of(each) for each in made.delete]


PARALLEL: dict[str, Any] = {"podManagementPolicy": "Parallel"}


@pytest.mark.parametrize(
    ("of", "members", "expected"),
    [
        pytest.param(owner(), [], ([0], []), id="first"),
        pytest.param(owner(), [pod(0, "pending")], ([], []), id="waits-for-the-first"),
        pytest.param(owner(), [pod(0)], ([1], []), id="second"),
        pytest.param(owner(), [pod(0), pod(2)], ([1], []), id="fills-the-gap"),
        pytest.param(owner(**PARALLEL), [], ([0, 1, 2], []), id="parallel"),
        pytest.param(owner(ordinals={"start": 5}), [], ([5], []), id="starts-elsewhere"),
        pytest.param(owner(), [pod(0, "failed")], ([], ["db-0"]), id="failed-is-made-again"),
        pytest.param(owner(1), [pod(0), pod(1), pod(2)], ([], ["db-2"]), id="highest-goes-first"),
        pytest.param(owner(1), [pod(0), pod(1), pod(2, "deleting")], ([], []), id="waits-for-the-highest"),
        pytest.param(owner(1, **PARALLEL), [pod(0), pod(1), pod(2)], ([], ["db-2", "db-1"]), id="parallel-down"),
        pytest.param(owner(0), [pod(0, "ill"), pod(1, "ill"), pod(2, "ill")], ([], []), id="not-down-while-all-are-ill"),
        pytest.param(owner(0), [pod(0, "ill"), pod(1), pod(2, "ill")], ([], []), id="not-down-past-an-ill-one"),
        pytest.param(owner(0), [pod(0), pod(1), pod(2, "ill")], ([], ["db-2"]), id="the-one-ill-pod-goes"),
        pytest.param(owner(0), [pod(0, "ill"), pod(1), pod(2)], ([], ["db-2"]), id="healthy-ones-go-before-an-ill-one"),
        pytest.param(owner(1), [pod(0, "pending"), pod(1)], ([], []), id="nothing-goes-while-one-is-ill"),
    ],
)
def test_steps(of: Object, members: list[Object], expected: tuple[list[int], list[str]]) -> None:
    assert step(of, members) == expected


@pytest.mark.parametrize(
    ("spec", "members", "expected"),
    [
        pytest.param({}, [pod(0), pod(1), pod(2)], ["db-2"], id="from-above"),
        pytest.param({}, [pod(0), pod(1), pod(2, revision="db-2")], ["db-1"], id="next"),
        pytest.param({}, [pod(0), pod(1), pod(2, "deleting")], [], id="one-at-a-time"),
        pytest.param({"updateStrategy": {"type": "OnDelete"}}, [pod(0), pod(1), pod(2)], [], id="on-delete"),
        pytest.param(
            {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}},
            [pod(0), pod(1), pod(2, revision="db-2")],
            [],
            id="partition",
        ),
        pytest.param(
            {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}},
            [pod(0), pod(1), pod(2)],
            ["db-2", "db-1"],
            id="two-at-a-time",
        ),
    ],
)
def test_updates(spec: dict[str, Any], members: list[Object], expected: list[str]) -> None:
    assert step(owner(**spec), members, MOVING) == ([], expected)


def test_status_of_a_finished_update() -> None:
    members = [pod(number, revision="db-2") for number in range(3)]
    made = plan.status(owner(), members, MOVING, NOW)
    assert (made["currentRevision"], made["updateRevision"]) == ("db-2", "db-2")
    assert (made["currentReplicas"], made["updatedReplicas"], made["readyReplicas"], made["availableReplicas"]) == (3, 3, 3, 3)
    members[0] = pod(0)
    assert plan.status(owner(), members, MOVING, NOW)["currentRevision"] == "db-1"


def test_identity_and_claims() -> None:
    template = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": []}}
    of = owner(serviceName="db", selector={"matchLabels": {"app": "db"}})
    of["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]
    made = new_pod(of, template, "db-1", 4)
    assert name_of(made) == "db-4"
    assert made["metadata"]["labels"] == {
        "app": "db",
        "statefulset.kubernetes.io/pod-name": "db-4",
        "apps.kubernetes.io/pod-index": "4",
        "controller-revision-hash": "db-1",
    }
    assert made["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-4"}}]
    assert [name_of(claim) for claim in claims(of, made)] == ["data-db-4"]

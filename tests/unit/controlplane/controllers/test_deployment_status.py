from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apimachinery.meta import Object
from controlplane.controllers.deployment import status

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def deployment(replicas: int = 2, *, deadline: int | None = 600, **held: Any) -> Object:
    spec: Object = {"replicas": replicas}
    if deadline is not None:
        spec["progressDeadlineSeconds"] = deadline
    return {"metadata": {"name": "web", "generation": 3}, "spec": spec, "status": held}


def replica_set(replicas: int, available: int, *conditions: Object) -> Object:
    counts = {"replicas": replicas, "readyReplicas": available, "availableReplicas": available, "conditions": list(conditions)}
    return {"metadata": {"name": "web-1", "uid": "1"}, "spec": {"replicas": replicas}, "status": counts}


def progressing(reason: str, *, state: str = "True", age: float = 0) -> Object:
    stamp = (NOW - timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"type": "Progressing", "status": state, "reason": reason, "lastUpdateTime": stamp, "lastTransitionTime": stamp}


def reasons(of: Object) -> dict[str, tuple[str, str]]:
    return {each["type"]: (each["status"], each["reason"]) for each in of["conditions"]}


def test_complete() -> None:
    new = replica_set(2, 2)
    made = status.progressed(deployment(conditions=[progressing("ReplicaSetUpdated")]), new, [new], NOW)
    counts = {field: made[field] for field in made if field != "conditions"}
    assert counts == {
        "observedGeneration": 3,
        "replicas": 2,
        "updatedReplicas": 2,
        "readyReplicas": 2,
        "availableReplicas": 2,
        "terminatingReplicas": 0,
    }
    assert reasons(made) == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }
    texts = [each["message"] for each in made["conditions"]]
    assert 'ReplicaSet "web-1" has successfully progressed.' in texts


@pytest.mark.parametrize(
    ("condition", "available", "expected"),
    [
        pytest.param(progressing("NewReplicaSetCreated", age=60), 1, ("True", "ReplicaSetUpdated"), id="more-available"),
        pytest.param(progressing("ReplicaSetUpdated", age=601), 0, ("False", "ProgressDeadlineExceeded"), id="timed-out"),
        pytest.param(progressing("ReplicaSetUpdated", age=599), 0, ("True", "ReplicaSetUpdated"), id="still-in-time"),
    ],
)
def test_progress(condition: Object, available: int, expected: tuple[str, str]) -> None:
    new = replica_set(2, available)
    held = deployment(conditions=[condition], replicas=2, updatedReplicas=2)
    assert reasons(status.progressed(held, new, [new], NOW))["Progressing"] == expected


def test_a_finished_rollout_stays_finished_when_a_pod_fails() -> None:
    new = replica_set(2, 1)
    made = status.progressed(deployment(conditions=[progressing("NewReplicaSetAvailable", age=9000)]), new, [new], NOW)
    assert reasons(made)["Progressing"] == ("True", "NewReplicaSetAvailable")


def test_no_deadline_no_condition() -> None:
    new = replica_set(2, 0)
    assert "Progressing" not in reasons(status.progressed(deployment(deadline=None), new, [new], NOW))


def test_replica_failure_is_passed_up() -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota"}
    new = replica_set(2, 0, failure)
    assert reasons(status.progressed(deployment(), new, [new], NOW))["ReplicaFailure"] == ("True", "FailedCreate")


@pytest.mark.parametrize(
    ("paused", "reason", "expected"),
    [
        (True, "ReplicaSetUpdated", "DeploymentPaused"),
        (True, "DeploymentPaused", None),
        (False, "DeploymentPaused", "DeploymentResumed"),
        (True, "ProgressDeadlineExceeded", None),
    ],
)
def test_pause(paused: bool, reason: str, expected: str | None) -> None:
    held = deployment(conditions=[progressing(reason)])
    held["spec"]["paused"] = paused
    words = status.pause_condition(held)
    assert (words and words[0]) == expected


def test_looks_again_at_the_deadline() -> None:
    held = deployment(conditions=[progressing("ReplicaSetUpdated", age=100)])
    assert status.next_look(held, held["status"], NOW) == 501

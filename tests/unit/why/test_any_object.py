"""Whatever a cluster stores: an explanation never fails, never calls well what does not run, and fits any width."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apimachinery import schema
from apimachinery.gvk import GroupVersionKind
from apimachinery.meta import Object, get_condition
from apimachinery.schema.types import Schema
from tests.corpus.cases import cases
from tests.support.explanations import ago, node, obj, snapshot
from tests.support.random_objects import random_value
from tests.support.samples import sample
from why.catalog import EXPLAINERS, explain
from why.cause import State
from why.kinds import KINDS
from why.rendering import as_json, tree

ROUNDS = 40
LOADED = schema.load()


def compiled(kind: str) -> Schema | None:
    resource = KINDS[kind].resource
    gvk = GroupVersionKind(resource.group, resource.version, kind)
    return LOADED.of(gvk) if LOADED.has(gvk) else None


DESCRIBED = [kind for kind in KINDS if compiled(kind) is not None]


def random_object(kind: str, random: Random, number: int) -> Object:
    described = compiled(kind)
    assert described is not None
    made: Object = random_value(described, random)
    made |= {"kind": kind, "metadata": {**made.get("metadata", {}), "name": f"x{number}", "uid": f"u{kind}{number}"}}
    for field in ("creationTimestamp", "deletionTimestamp"):
        made["metadata"].pop(field, None)
    if random.random() < 0.3:
        made["metadata"]["deletionTimestamp"] = ago(random.randint(-50, 500))
    made["metadata"]["namespace"] = "a" if KINDS[kind].namespaced else ""
    return made


def is_told(subject: Object, seen: Any) -> State:
    answer = explain(seen, subject)
    as_json(answer)
    assert tree(answer, 20)
    return answer.state


@pytest.mark.parametrize("kind", [kind for kind in EXPLAINERS if kind in DESCRIBED])
def test_any_decodable_object_among_any_others_is_answered(kind: str) -> None:
    random = Random(kind)
    for number in range(ROUNDS):
        subject = random_object(kind, random, number)
        others = [random_object(random.choice(DESCRIBED), random, 100 + each) for each in range(6)]

        state = is_told(subject, snapshot(subject, *others))

        if state is State.WELL:
            assert not (subject["metadata"].get("deletionTimestamp")), subject
            assert runs(subject), subject


def runs(subject: Object) -> bool:
    """By the fields that the API documents for this; True for kinds without any."""
    spec, status = subject.get("spec") or {}, subject.get("status") or {}
    wanted = 1 if spec.get("replicas") is None else spec["replicas"]
    ready = (get_condition(subject, "Ready") or {}).get("status") == "True"
    match subject["kind"]:
        case "Pod":
            return status.get("phase") == "Succeeded" or ready
        case "Node":
            return ready
        case "Deployment" | "ReplicaSet" | "ReplicationController" | "StatefulSet":
            return int(status.get("availableReplicas") or 0) >= wanted
        case "DaemonSet":
            return int(status.get("numberAvailable") or 0) >= int(status.get("desiredNumberScheduled") or 0)
        case "Job":
            return (get_condition(subject, "Complete") or {}).get("status") == "True"
        case "PersistentVolumeClaim":
            return status.get("phase") == "Bound"
        case "PersistentVolume":
            return status.get("phase") in ("Bound", "Available")
        case "APIService":
            return (get_condition(subject, "Available") or {}).get("status") == "True"
    return True


VALID = {kind: [each.body for each in cases("valid") if each.body.get("kind") == kind] for kind in EXPLAINERS}


@pytest.mark.parametrize("kind", [kind for kind, bodies in VALID.items() if bodies])
def test_explainers_understand_everything_that_a_server_stores(kind: str) -> None:
    """What is valid, with any status: without the net that catches forms which nobody can store."""
    random = Random(kind)
    for body in VALID[kind]:
        if body.get("apiVersion") != KINDS[kind].resource.api_version:
            continue
        described: Any = compiled(kind)
        for _ in range(3):
            status = sample(described, random).get("status") or {}
            metadata = {"namespace": "a" if KINDS[kind].namespaced else "", "uid": "u1", **body["metadata"]}
            metadata["name"] = metadata.get("name") or "made"
            subject = {**body, "metadata": metadata, "status": status}

            EXPLAINERS[kind](snapshot(subject, node()), subject)


STATES = st.sampled_from(
    [
        {},
        {"running": {"startedAt": ago(5)}},
        {"waiting": {"reason": "CrashLoopBackOff"}},
        {"waiting": {"reason": "ContainerCreating"}},
        {"waiting": {}},
        {"terminated": {"exitCode": 0}},
        {"terminated": {"exitCode": 137, "finishedAt": ago(5)}},
    ]
)
CONTAINERS = st.lists(st.builds(dict, name=st.sampled_from(["a", "b"]), state=STATES, ready=st.booleans()), max_size=3)


@given(
    phase=st.sampled_from(["", "Pending", "Running", "Succeeded", "Failed", "Unknown"]),
    ready=st.sampled_from(["True", "False", "Unknown", None]),
    on=st.sampled_from(["", "n1", "gone"]),
    init=CONTAINERS,
    ordinary=CONTAINERS,
    deleted=st.booleans(),
    policy=st.sampled_from(["Always", "Never", "OnFailure"]),
)
def test_a_pod_that_does_not_run_always_has_a_cause(
    phase: str, ready: str | None, on: str, init: list[Object], ordinary: list[Object], deleted: bool, policy: str
) -> None:
    described = [{"name": each["name"], "readinessProbe": {"tcpSocket": {"port": 1}}} for each in ordinary]
    status = {"phase": phase, "initContainerStatuses": init, "containerStatuses": ordinary}
    status |= {"conditions": [{"type": "Ready", "status": ready}]} if ready else {}
    spec = {"containers": described, "restartPolicy": policy} | ({"nodeName": on} if on else {})
    subject = obj("Pod", "web", spec=spec, status=status, **({"deletionTimestamp": ago(9)} if deleted else {}))

    answer = EXPLAINERS["Pod"](snapshot(subject, node()), subject)

    if answer.state is State.WELL:
        assert not deleted
        assert phase == "Succeeded" or (ready == "True" and on)
    else:
        assert answer.causes, "whatever is not well has a cause"
    assert answer.state is not State.UNKNOWN

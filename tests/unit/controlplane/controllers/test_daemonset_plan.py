from datetime import UTC, datetime
from typing import Any

import pytest

from apimachinery.meta import Object, name_of
from controlplane.controllers.daemonset import plan

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NODES: list[Object] = [{"metadata": {"name": name, "labels": {"disk": "ssd"}}, "spec": {}} for name in ("a", "b", "c")]


def owner(strategy: dict[str, Any] | None = None, **spec: Any) -> Object:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "x:1"}], **spec}}
    return {
        "metadata": {"name": "agent", "namespace": "ns", "uid": "u", "generation": 2},
        "spec": {"template": template, "updateStrategy": strategy or {"type": "RollingUpdate"}},
    }


def pod(node: str, digest: str = "new", state: str = "ready", name: str = "") -> Object:
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}] if state == "ready" else []
    labels = {"controller-revision-hash": digest}
    metadata: Object = {"name": name or f"agent-{node}-{digest}", "labels": labels, "creationTimestamp": "2025-01-01T00:00:00Z"}
    if state == "deleting":
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    phase = "Failed" if state == "failed" else "Running"
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase, "conditions": conditions}}


def names(pods: list[Object]) -> list[str]:
    return sorted(name_of(each) for each in pods)


@pytest.mark.parametrize(
    ("mine", "create", "delete"),
    [
        pytest.param([], ["a", "b", "c"], [], id="everywhere"),
        pytest.param([pod("a"), pod("b"), pod("c")], [], [], id="complete"),
        pytest.param([pod("a", state="deleting"), pod("b"), pod("c")], [], [], id="waits-for-the-old-one"),
        pytest.param([pod("a", state="failed"), pod("b"), pod("c")], [], ["agent-a-new"], id="failed"),
        pytest.param([pod("a", name="x"), pod("a", name="y"), pod("b"), pod("c")], [], ["y"], id="one-too-many"),
    ],
)
def test_placement(mine: list[Object], create: list[str], delete: list[str]) -> None:
    made = plan.placement(owner(), NODES, mine, "new", NOW)
    assert (sorted(made.create), names(made.delete)) == (create, delete)


@pytest.mark.parametrize(
    ("spec", "node_spec", "expected"),
    [
        pytest.param({}, {}, (True, True), id="eligible"),
        pytest.param({"nodeSelector": {"disk": "hdd"}}, {}, (False, False), id="not-selected"),
        pytest.param({}, {"taints": [{"key": "k", "effect": "NoSchedule"}]}, (False, True), id="may-stay"),
        pytest.param({}, {"taints": [{"key": "k", "effect": "NoExecute"}]}, (False, False), id="must-go"),
        pytest.param(
            {}, {"taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}, (True, True), id="cordoned"
        ),
        pytest.param({}, {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]}, (True, True), id="ill"),
    ],
)
def test_eligibility(spec: dict[str, Any], node_spec: dict[str, Any], expected: tuple[bool, bool]) -> None:
    assert plan.eligibility(owner(**spec), {**NODES[0], "spec": node_spec}) == expected


@pytest.mark.parametrize(
    ("rolling", "mine", "create", "delete"),
    [
        pytest.param({}, [pod(n, "old") for n in "abc"], [], ["agent-a-old"], id="one-at-a-time"),
        pytest.param({"maxUnavailable": 2}, [pod(n, "old") for n in "abc"], [], ["agent-a-old", "agent-b-old"], id="two"),
        pytest.param({}, [pod("a", "new", "pending"), pod("b", "old"), pod("c", "old")], [], [], id="waits"),
        pytest.param({}, [pod("a", "old", "pending"), pod("b", "old"), pod("c", "old")], [], ["agent-a-old"], id="ill-first"),
        pytest.param({"maxUnavailable": 0, "maxSurge": 1}, [pod(n, "old") for n in "abc"], ["a"], [], id="surge"),
        pytest.param(
            {"maxUnavailable": 0, "maxSurge": 1},
            [pod("a", "new"), *(pod(n, "old") for n in "abc")],
            ["b"],
            ["agent-a-old"],
            id="surge-goes-on",
        ),
    ],
)
def test_updates(rolling: dict[str, Any], mine: list[Object], create: list[str], delete: list[str]) -> None:
    made = plan.update(owner({"type": "RollingUpdate", "rollingUpdate": rolling}), NODES, mine, "new", NOW)
    assert (sorted(made.create), names(made.delete)) == (create, delete)


def test_pods_are_pinned_to_their_node() -> None:
    made = plan.new_pod(owner(), "b", "new")
    assert plan.target_node(made) == "b"
    assert "nodeName" not in made["spec"]
    assert made["metadata"]["labels"] == {"app": "x", "controller-revision-hash": "new", "pod-template-generation": "2"}


def test_status() -> None:
    made = plan.status(owner(), NODES, [pod("a"), pod("b", "old"), pod("c", state="pending")], "new", NOW)
    assert made == {
        "currentNumberScheduled": 3,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 3,
        "numberReady": 2,
        "observedGeneration": 2,
        "updatedNumberScheduled": 2,
        "numberAvailable": 2,
        "numberUnavailable": 1,
    }

"""The judge of ``make ha`` objects to what it should object to."""

from typing import Any

import pytest

from tests.ha.judge import Bounds, Pods, Probe, final_faults


def pod(uid: str, node: str = "n1", *, ready: bool = True, leaving: bool = False, owner: str = "rs1") -> dict[str, Any]:
    metadata = {"uid": uid, "name": f"ha-{uid}", "ownerReferences": [{"uid": owner}]}
    if leaving:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    conditions = [{"type": "Ready", "status": str(ready)}]
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"conditions": conditions}}


def replicaset(uid: str, replicas: int, template: str = "") -> dict[str, Any]:
    return {"metadata": {"uid": uid, "labels": {"pod-template-hash": template or uid}}, "spec": {"replicas": replicas}}


def deployment(replicas: int, **status: int) -> dict[str, Any]:
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), replicas)
    return {
        "metadata": {"generation": 3},
        "spec": {"replicas": replicas},
        "status": {"observedGeneration": 3, **counts, **status},
    }


def test_the_longest_gap_reaches_to_the_end() -> None:
    probe = Probe("read", good=[10.0, 10.1, 12.6, 12.7])
    assert probe.longest_gap(13.0) == (2.5, 10.1)
    assert probe.longest_gap(20.0) == (pytest.approx(7.3), 12.7)


def test_a_pod_on_two_nodes_is_noticed() -> None:
    pods = Pods()
    pods.seen(pod("a"))
    pods.seen(pod("a"))
    assert not pods.wrong
    pods.seen(pod("a", "n2"))
    assert pods.wrong == ["pod ha-a was bound to ['n1', 'n2']"]


def test_leaving_pods_do_not_count() -> None:
    pods = Pods()
    for each in (pod("a"), pod("b", leaving=True), pod("c", ready=False), pod("d")):
        pods.seen(each)
    pods.gone(pod("d"))
    assert (len(pods.wanted), pods.ready) == (2, 1)


def test_bounds_are_those_of_the_strategy() -> None:
    assert (Bounds([8]).most, Bounds([8]).least_ready) == (10, 6)
    assert (Bounds([10, 6]).most, Bounds([10, 6], deleted=1).least_ready) == (13, 4)


GOOD = (deployment(2), [replicaset("rs1", 2), replicaset("rs0", 0)], [pod("a"), pod("b")])


def test_nothing_is_wrong() -> None:
    assert final_faults(*GOOD) == []


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ((deployment(2, readyReplicas=1), *GOOD[1:]), "status.readyReplicas is 1, not 2"),
        ((deployment(2, observedGeneration=2), *GOOD[1:]), "has not been observed"),
        ((GOOD[0], [replicaset("rs1", 1), replicaset("rs0", 1)], GOOD[2]), "2 ReplicaSets want pods"),
        ((GOOD[0], [replicaset("rs1", 2, "t"), replicaset("rs0", 0, "t")], GOOD[2]), "the same template"),
        ((*GOOD[:2], [pod("a"), pod("b", owner="rs0")]), "belong to others"),
        ((*GOOD[:2], [pod("a")]), "1 pods, not 2"),
        ((*GOOD[:2], [pod("a"), pod("b", ready=False)]), "ha-b is not Ready"),
        ((*GOOD[:2], [pod("a"), pod("b", leaving=True)]), "ha-b is still going"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_said(changed: Any, message: str) -> None:
    assert any(message in fault for fault in final_faults(*changed))

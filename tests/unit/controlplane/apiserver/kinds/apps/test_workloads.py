# ruff: noqa: E501 - messages are searched for, so they stay on one line
"""Deployments, ReplicaSets, DaemonSets, StatefulSets and ReplicationControllers."""

from typing import Any

import pytest

from apimachinery.meta import clone
from tests.support.kinds import NOW, context, created, problems, strategy, update_problems

Object = dict[str, Any]


def template(**spec: Any) -> Object:
    return {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}], **spec}}


def workload(**spec: Any) -> Object:
    return {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template(), **spec}}


DEFAULTS = [
    pytest.param(
        "deployments",
        {
            "replicas": 1,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
        },
        id="deployments",
    ),
    pytest.param("replicasets", {"replicas": 1}, id="replicasets"),
    pytest.param(
        "daemonsets",
        {
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
            "revisionHistoryLimit": 10,
        },
        id="daemonsets",
    ),
    pytest.param(
        "statefulsets",
        {
            "replicas": 1,
            "podManagementPolicy": "OrderedReady",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "revisionHistoryLimit": 10,
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        },
        id="statefulsets",
    ),
]


@pytest.mark.parametrize(("plural", "expected"), DEFAULTS)
def test_defaults(plural: str, expected: Object) -> None:
    spec = created(strategy(plural), workload())["spec"]
    assert {key: value for key, value in spec.items() if key not in ("selector", "template")} == expected
    assert spec["template"]["spec"]["dnsPolicy"] == "ClusterFirst"
    assert "enableServiceLinks" not in spec["template"]["spec"]  # defaulted in Pods alone


def test_recreate_has_no_rolling_parameters() -> None:
    assert created(strategy("deployments"), workload(strategy={"type": "Recreate"}))["spec"]["strategy"] == {"type": "Recreate"}


def test_replication_controller_takes_selector_and_labels_from_its_template() -> None:
    obj = created(strategy("replicationcontrollers"), {"spec": {"template": template()}})
    assert obj["spec"]["selector"] == {"a": "b"}
    assert obj["metadata"]["labels"] == {"a": "b"}


INVALID = [
    ("deployments", {"replicas": -1}, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
    ("deployments", {"selector": None}, "spec.selector: Required value"),
    ("deployments", {"selector": {}}, "spec.selector: Invalid value: {}: empty selector is invalid for deployment"),
    (
        "deployments",
        {"selector": {"matchLabels": {"x": "y"}}},
        'spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`',
    ),
    (
        "deployments",
        {"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
        'spec.selector.matchExpressions[0].operator: Invalid value: "Near": not a valid selector operator',
    ),
    (
        "deployments",
        {"template": template(restartPolicy="Never")},
        'spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"',
    ),
    (
        "deployments",
        {"template": template(activeDeadlineSeconds=5)},
        "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported",
    ),
    (
        "deployments",
        {"strategy": {"type": "Recreate", "rollingUpdate": {}}},
        "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
    ),
    (
        "deployments",
        {"strategy": {"type": "Slow"}},
        'spec.strategy: Unsupported value: {"type":"Slow"}: supported values: "Recreate", "RollingUpdate"',
    ),
    (
        "deployments",
        {"strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "0%"}}},
        "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
    ),
    (
        "deployments",
        {"strategy": {"rollingUpdate": {"maxUnavailable": "101%"}}},
        'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%',
    ),
    (
        "deployments",
        {"strategy": {"rollingUpdate": {"maxSurge": "many"}}},
        'spec.strategy.rollingUpdate.maxSurge: Invalid value: "many": a valid percent string must be a numeric string',
    ),
    (
        "deployments",
        {"minReadySeconds": 600},
        "spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds",
    ),
    ("replicasets", {"template": None}, "spec.template.spec.containers: Required value"),
    (
        "daemonsets",
        {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}},
        "spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0",
    ),
    (
        "statefulsets",
        {"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}},
        "spec.updateStrategy.rollingUpdate: Invalid value:",
    ),
    (
        "statefulsets",
        {"podManagementPolicy": "Random"},
        "spec.podManagementPolicy: Invalid value: \"Random\": must be 'OrderedReady' or 'Parallel'",
    ),
]


@pytest.mark.parametrize(("plural", "spec", "message"), INVALID, ids=[f"{row[0]} {row[2][:40]}" for row in INVALID])
def test_refuses(plural: str, spec: Object, message: str) -> None:
    obj = workload(**spec)
    obj["spec"] = {key: value for key, value in obj["spec"].items() if value is not None}
    found = problems(strategy(plural), obj)
    assert any(text.startswith(message) for text in found), found


@pytest.mark.parametrize("plural", ["deployments", "replicasets", "daemonsets"])
def test_selector_is_immutable(plural: str) -> None:
    kind = strategy(plural)
    old = created(kind, workload())
    new = clone(old)
    new["spec"]["selector"]["matchLabels"]["c"] = "d"
    new["spec"]["template"]["metadata"]["labels"]["c"] = "d"
    assert update_problems(kind, new, old) == [
        'spec.selector: Invalid value: {"matchLabels":{"a":"b","c":"d"}}: field is immutable'
    ]


def test_statefulset_spec_is_mostly_immutable() -> None:
    kind = strategy("statefulsets")
    old = created(kind, workload(serviceName="a"))
    new = clone(old)
    new["spec"]["replicas"] = 5
    assert update_problems(kind, new, old) == []
    new["spec"]["serviceName"] = "b"
    assert update_problems(kind, new, old) == [
        "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
        "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
    ]


def test_status_counts_must_fit_together() -> None:
    kind = strategy("deployments")
    old = created(kind, workload())
    new = {**clone(old), "status": {"replicas": 1, "readyReplicas": 2}}
    found = [str(error) for error in kind.validate_status_update(context(), new, old)]
    assert found == ["status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas"]


ROWS = [
    (
        "deployments",
        {"replicas": 3},
        {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1},
        ["x", "1/3", 2, 1, "60s", "c", "i:1", "a=b"],
    ),
    ("replicasets", {"replicas": 3}, {"replicas": 2, "readyReplicas": 1}, ["x", 3, 2, 1, "60s", "c", "i:1", "a=b"]),
    ("statefulsets", {"replicas": 3}, {"readyReplicas": 1}, ["x", "1/3", "60s", "c", "i:1"]),
    (
        "daemonsets",
        {"template": template(nodeSelector={"x": "y"})},
        {
            "desiredNumberScheduled": 5,
            "currentNumberScheduled": 4,
            "numberReady": 3,
            "updatedNumberScheduled": 2,
            "numberAvailable": 1,
        },
        ["x", 5, 4, 3, 2, 1, "x=y", "60s", "c", "i:1", "a=b"],
    ),
]


@pytest.mark.parametrize(("plural", "spec", "status", "cells"), ROWS, ids=[row[0] for row in ROWS])
def test_row(plural: str, spec: Object, status: Object, cells: list[Any]) -> None:
    kind = strategy(plural)
    obj = created(kind, workload(**spec))
    obj["status"] = status
    obj["metadata"]["creationTimestamp"] = "2026-11-30T11:59:00Z"
    assert kind.row(obj, NOW) == cells

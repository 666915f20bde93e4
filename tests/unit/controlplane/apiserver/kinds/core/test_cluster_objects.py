# ruff: noqa: E501 - messages are searched for, so they stay on one line
"""Namespaces, Nodes, Endpoints, LimitRanges, ResourceQuotas."""

from typing import Any

import pytest

from apimachinery.meta import clone
from tests.support.kinds import NOW, context, created, problems, strategy, update_problems

Object = dict[str, Any]
STAMP = {"name": "x", "creationTimestamp": "2026-11-30T11:59:00Z"}


# --------------------------------------------------------------------------- namespaces


def test_a_new_namespace_is_active_named_by_label_and_held_by_a_finalizer() -> None:
    obj = created(strategy("namespaces"), {})
    assert obj["spec"] == {"finalizers": ["kubernetes"]}
    assert obj["status"] == {"phase": "Active"}
    assert obj["metadata"]["labels"] == {"kubernetes.io/metadata.name": "x"}


def test_a_namespace_terminates_and_leaves_only_without_finalizers() -> None:
    kind = strategy("namespaces")
    obj = created(kind, {})
    options: Object = {"gracePeriodSeconds": 30}
    assert kind.begin_delete(context("delete"), obj, options)
    assert obj["status"]["phase"] == "Terminating"
    assert options["gracePeriodSeconds"] == 0
    assert not kind.may_remove(obj)
    (finalize,) = kind.subresources
    assert kind.may_remove(finalize.change(context(), obj, {"spec": {}}))


def test_spec_of_a_namespace_changes_by_finalize_only() -> None:
    kind = strategy("namespaces")
    old = created(kind, {})
    new = {**clone(old), "spec": {"finalizers": []}}
    assert update_problems(kind, new, old) == []
    assert new["spec"] == {"finalizers": ["kubernetes"]}


def test_phase_must_fit_the_deletion_timestamp() -> None:
    kind = strategy("namespaces")
    obj = created(kind, {})
    obj["status"]["phase"] = "Terminating"
    (error,) = kind.validate_status_update(context(), obj, obj)
    assert str(error) == "status.phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"


# --------------------------------------------------------------------------- nodes


def test_pod_cidr_is_kept_in_both_forms_and_stays() -> None:
    kind = strategy("nodes")
    old = created(kind, {"spec": {"podCIDR": "10.244.0.0/24"}})
    assert old["spec"]["podCIDRs"] == ["10.244.0.0/24"]
    new = clone(old)
    new["spec"] = {"podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24"]}
    assert update_problems(kind, new, old) == [
        'spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid'
    ]


@pytest.mark.parametrize(
    ("taints", "message"),
    [
        ([{"key": "a"}], "metadata.taints[0].effect: Required value"),
        (
            [{"key": "a", "effect": "Never"}],
            'metadata.taints[0].effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"',
        ),
        ([{"key": "a", "effect": "NoExecute"}] * 2, "metadata.taints[1]: Duplicate value:"),
    ],
)
def test_taints(taints: list[Object], message: str) -> None:
    found = problems(strategy("nodes"), {"spec": {"taints": taints}})
    assert any(text.startswith(message) for text in found), found


@pytest.mark.parametrize(
    ("spec", "conditions", "word"),
    [
        ({}, [{"type": "Ready", "status": "True"}], "Ready"),
        ({}, [{"type": "Ready", "status": "Unknown"}], "NotReady"),
        ({}, [], "Unknown"),
        ({"unschedulable": True}, [{"type": "Ready", "status": "True"}], "Ready,SchedulingDisabled"),
    ],
)
def test_node_status_word(spec: Object, conditions: list[Object], word: str) -> None:
    assert strategy("nodes").row({"metadata": STAMP, "spec": spec, "status": {"conditions": conditions}}, NOW)[1] == word


def test_wide_node_row() -> None:
    status = {
        "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}],
        "nodeInfo": {
            "kubeletVersion": "v1.36.0",
            "osImage": "Debian",
            "kernelVersion": "6.1",
            "containerRuntimeVersion": "containerd://1.6",
        },
    }
    labels = {"node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "worker"}
    obj = {"metadata": {**STAMP, "labels": labels}, "status": status}
    assert strategy("nodes").row(obj, NOW)[2:] == [
        "control-plane,worker",
        "60s",
        "v1.36.0",
        "1.2.3.4",
        "<none>",
        "Debian",
        "6.1",
        "containerd://1.6",
    ]


# --------------------------------------------------------------------------- endpoints, limits, quotas


@pytest.mark.parametrize(
    ("count", "ports", "text"),
    [
        (0, [], "<none>"),
        (2, [{"port": 80}], "10.0.0.0:80,10.0.0.1:80"),
        (5, [{"port": 80}], "10.0.0.0:80,10.0.0.1:80,10.0.0.2:80 + 2 more..."),
        (1, [], "10.0.0.0"),
    ],
)
def test_endpoints_row(count: int, ports: list[Object], text: str) -> None:
    addresses = [{"ip": f"10.0.0.{number}"} for number in range(count)]
    subsets = [{"addresses": addresses, "ports": ports}] if count else []
    assert strategy("endpoints").row({"metadata": STAMP, "subsets": subsets}, NOW)[1] == text


def test_limit_range_defaults_follow_from_bounds() -> None:
    item = {"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}}
    obj = created(strategy("limitranges"), {"spec": {"limits": [item]}})
    assert obj["spec"]["limits"][0]["default"] == {"cpu": "2"}
    assert obj["spec"]["limits"][0]["defaultRequest"] == {"cpu": "2", "memory": "1Mi"}


def test_limit_range_bounds_must_be_in_order() -> None:
    item = {"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "2"}}
    found = problems(strategy("limitranges"), {"spec": {"limits": [item]}})
    assert 'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1' in found


def test_quota_row_parts_limits_from_the_rest() -> None:
    status = {"hard": {"pods": "5", "limits.cpu": "2"}, "used": {"pods": "1"}}
    assert strategy("resourcequotas").row({"metadata": STAMP, "status": status}, NOW) == [
        "x",
        "pods: 1/5",
        "limits.cpu: 0/2",
        "60s",
    ]

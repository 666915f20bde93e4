"""The flow control objects that every cluster has: mandatory ones, whose specs are fixed, and suggested ones.

Names and numbers are upstream's (``k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap``). ``poststart`` writes them.
"""

from collections.abc import Sequence
from typing import Any

Object = dict[str, Any]
GROUP = "flowcontrol.apiserver.k8s.io"
AUTO_UPDATE = "apf.kubernetes.io/autoupdate-spec"  # whether the server may change the object to what it suggests
_EVERYBODY = ("system:unauthenticated", "system:authenticated")
_RENEWING = ["get", "create", "update"]
_LEASES = {"verbs": _RENEWING, "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "namespaces": ["*"]}


def _limited(shares: int, lendable: int, queues: int = 0, hand: int = 0) -> Object:
    response: Object = {"type": "Reject"}
    if queues:
        response = {"type": "Queue", "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": 50}}
    limited = {"nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response}
    return {"type": "Limited", "limited": limited}


MANDATORY_LEVELS: dict[str, Object] = {
    "exempt": {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}},
    "catch-all": _limited(5, 0),
}
SUGGESTED_LEVELS: dict[str, Object] = {
    "system": _limited(30, 33, 64, 6),
    "node-high": _limited(40, 25, 64, 6),
    "leader-election": _limited(10, 0, 16, 4),
    "workload-high": _limited(40, 50, 128, 6),
    "workload-low": _limited(100, 90, 128, 6),
    "global-default": _limited(20, 50, 128, 6),
}


def _groups(*names: str) -> list[Object]:
    return [{"kind": "Group", "group": {"name": name}} for name in names]


def _users(*names: str) -> list[Object]:
    return [{"kind": "User", "user": {"name": name}} for name in names]


def _accounts(*names: str) -> list[Object]:
    return [{"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": name}} for name in names]


def _everything(subjects: list[Object]) -> Object:
    resources = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
    return {
        "subjects": subjects,
        "resourceRules": [resources],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }


def _schema(level: str, precedence: int, flows: str, rule: Object) -> Object:
    spec: Object = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence, "rules": [rule]}
    return {**spec, "distinguisherMethod": {"type": flows}} if flows else spec


MANDATORY_SCHEMAS: dict[str, Object] = {
    "exempt": _schema("exempt", 1, "", _everything(_groups("system:masters"))),
    "catch-all": _schema("catch-all", 10000, "ByUser", _everything(_groups(*_EVERYBODY))),
}
_NODE_RULES = [
    {"verbs": ["*"], "apiGroups": [""], "resources": ["nodes", "nodes/status"], "clusterScope": True, "namespaces": ["*"]},
    {"verbs": ["*"], "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "namespaces": ["*"]},
]
_ENDPOINTS = {"verbs": _RENEWING, "apiGroups": [""], "resources": ["endpoints"], "namespaces": ["*"]}
_CONTROLLER_MANAGER, _SCHEDULER = "system:kube-controller-manager", "system:kube-scheduler"
SUGGESTED_SCHEMAS: dict[str, Object] = {
    "system-nodes": _schema("system", 500, "ByUser", _everything(_groups("system:nodes"))),
    "system-node-high": _schema("node-high", 400, "ByUser", {"subjects": _groups("system:nodes"), "resourceRules": _NODE_RULES}),
    "probes": _schema(
        "exempt",
        2,
        "",
        {
            "subjects": _groups(*_EVERYBODY),
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}],
        },
    ),
    "system-leader-election": _schema(
        "leader-election",
        100,
        "ByUser",
        {"subjects": _users(_CONTROLLER_MANAGER, _SCHEDULER) + _accounts("*"), "resourceRules": [_LEASES]},
    ),
    "endpoint-controller": _schema(
        "workload-high",
        150,
        "ByUser",
        {
            "subjects": _users(_CONTROLLER_MANAGER) + _accounts("endpoint-controller", "endpointslicemirroring-controller"),
            "resourceRules": [_ENDPOINTS],
        },
    ),
    "workload-leader-election": _schema(
        "leader-election", 200, "ByUser", {"subjects": _accounts("*"), "resourceRules": [_LEASES]}
    ),
    "kube-controller-manager": _schema("workload-high", 800, "ByNamespace", _everything(_users(_CONTROLLER_MANAGER))),
    "kube-scheduler": _schema("workload-high", 800, "ByNamespace", _everything(_users(_SCHEDULER))),
    "kube-system-service-accounts": _schema("workload-high", 900, "ByNamespace", _everything(_accounts("*"))),
    "service-accounts": _schema("workload-low", 9000, "ByUser", _everything(_groups("system:serviceaccounts"))),
    "global-default": _schema("global-default", 9900, "ByUser", _everything(_groups(*_EVERYBODY))),
}


def objects() -> Sequence[tuple[str, Object]]:
    """Resource and object, levels before the schemas that name them."""
    made: list[tuple[str, Object]] = []
    for resource, kind, specs in (
        (f"prioritylevelconfigurations.{GROUP}", "PriorityLevelConfiguration", MANDATORY_LEVELS | SUGGESTED_LEVELS),
        (f"flowschemas.{GROUP}", "FlowSchema", MANDATORY_SCHEMAS | SUGGESTED_SCHEMAS),
    ):
        for name, spec in specs.items():
            annotations = {AUTO_UPDATE: "true"}
            metadata = {"name": name, "annotations": annotations}
            made.append((resource, {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, "spec": spec}))
    return made

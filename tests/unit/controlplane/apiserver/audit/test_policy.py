"""Which rule of an audit policy decides."""

from typing import Any

import pytest

from component.errors import OperatorError
from controlplane.apiserver.audit.policy import Level, policy_from
from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.wire.info import parse

USER = UserInfo("jane", groups=("dev", "system:authenticated"))


def level(path: str, *rules: dict[str, Any], method: str = "GET") -> Level:
    policy = policy_from({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": list(rules)})
    return policy.judge(USER, parse(method, path, {})).level


@pytest.mark.parametrize(
    ("rule", "path", "fits"),
    [
        ({}, "/api/v1/pods", True),
        ({"users": ["jane"]}, "/healthz", True),
        ({"users": ["john"]}, "/healthz", False),
        ({"userGroups": ["ops", "dev"]}, "/healthz", True),
        ({"verbs": ["create"]}, "/api/v1/pods", False),
        ({"namespaces": ["a"]}, "/api/v1/namespaces/a/pods", True),
        ({"namespaces": ["a"]}, "/api/v1/namespaces/b/pods", False),
        ({"namespaces": [""]}, "/api/v1/nodes", True),
        ({"resources": [{"group": ""}]}, "/api/v1/pods", True),
        ({"resources": [{"group": ""}]}, "/apis/apps/v1/deployments", False),
        ({"resources": [{"group": "", "resources": ["pods"]}]}, "/api/v1/namespaces/a/pods/p/log", False),
        ({"resources": [{"group": "", "resources": ["pods/log"]}]}, "/api/v1/namespaces/a/pods/p/log", True),
        ({"resources": [{"group": "", "resources": ["pods/*"]}]}, "/api/v1/namespaces/a/pods/p/log", True),
        ({"resources": [{"group": "", "resources": ["*/log"]}]}, "/api/v1/namespaces/a/pods/p/log", True),
        ({"resources": [{"group": "", "resources": ["pods"], "resourceNames": ["p"]}]}, "/api/v1/namespaces/a/pods/q", False),
        ({"resources": [{"group": ""}]}, "/healthz", False),
        ({"nonResourceURLs": ["/healthz*"]}, "/healthz/etcd", True),
        ({"nonResourceURLs": ["/healthz"]}, "/healthz/etcd", False),
        ({"nonResourceURLs": ["*"]}, "/api/v1/pods", False),
    ],
)
def test_rules(rule: dict[str, Any], path: str, fits: bool) -> None:
    assert (level(path, {"level": "Request", **rule}) is Level.REQUEST) == fits


def test_the_first_rule_decides_and_stages_add_up() -> None:
    rules: list[dict[str, Any]] = [{"level": "None", "users": ["jane"]}, {"level": "RequestResponse"}]
    assert level("/api/v1/pods", *rules) is Level.NONE
    given = {"rules": [{"level": "Metadata", "omitStages": ["ResponseStarted"]}], "omitStages": ["RequestReceived"]}
    policy = policy_from({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", **given})
    assert policy.rules[0].verdict.omitted == {"RequestReceived", "ResponseStarted"}


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "Policy", "apiVersion": "audit.k8s.io/v1", "rules": []},
        {"kind": "Policy", "apiVersion": "v1", "rules": [{"level": "Metadata"}]},
        {"kind": "Policy", "apiVersion": "audit.k8s.io/v1", "rules": [{"level": "Everything"}]},
        {"kind": "Policy", "apiVersion": "audit.k8s.io/v1", "rules": [{"level": "None", "omitStages": ["Later"]}]},
        {"kind": "Policy", "apiVersion": "audit.k8s.io/v1", "rules": [{"level": "None", "nonResourceURLs": ["healthz"]}]},
    ],
)
def test_what_is_no_policy(given: dict[str, Any]) -> None:
    with pytest.raises(OperatorError, match="audit policy"):
        policy_from(given)

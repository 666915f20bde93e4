"""ABAC policies, and the reconciliation of default roles."""

from pathlib import Path
from typing import Any

import pytest

from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.authorization import bootstrap_policy
from controlplane.apiserver.authorization.abac import ABACAuthorizer
from controlplane.apiserver.authorization.interface import Attributes, Decision
from controlplane.apiserver.authorization.reconcile import reconciled_binding, reconciled_role

FILE = """
# people
{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {"user": "alice", "namespace": "*", "resource": "*", "apiGroup": "*"}}
{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {"group": "readers", "namespace": "a", "resource": "pods", "readonly": true}}
{"apiVersion": "abac.authorization.kubernetes.io/v1beta1", "kind": "Policy", "spec": {"user": "*", "group": "system:authenticated", "readonly": true, "nonResourcePath": "/api*"}}
"""  # noqa: E501


def asked(name: str, verb: str, resource: str = "", namespace: str = "", *groups: str, path: str = "") -> Attributes:
    user = UserInfo(name, groups=groups)
    return Attributes(user, verb, path, not path, "", "v1", resource, "", namespace, "")


@pytest.mark.parametrize(
    ("question", "yes"),
    [
        (asked("alice", "delete", "nodes"), True),
        (asked("alice", "get", path="/metrics"), False),
        (asked("bob", "get", "pods", "a", "readers"), True),
        (asked("bob", "delete", "pods", "a", "readers"), False),
        (asked("bob", "get", "pods", "b", "readers"), False),
        (asked("bob", "get", "secrets", "a", "readers"), False),
        (asked("bob", "get", "", "", "system:authenticated", path="/apis/apps"), True),
        (asked("bob", "get", "", "", path="/apis/apps"), False),
    ],
)
async def test_policies(tmp_path: Path, question: Attributes, yes: bool) -> None:
    (tmp_path / "policy").write_text(FILE)
    decision, _ = await ABACAuthorizer.load(tmp_path / "policy").authorize(question)
    assert decision is (Decision.ALLOW if yes else Decision.NO_OPINION)


def test_a_bad_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "policy").write_text(FILE + '{"user": "x"}\n')
    with pytest.raises(ValueError, match="line 6: must be a Policy"):
        ABACAuthorizer.load(tmp_path / "policy")


def role(name: str) -> dict[str, Any]:
    return next(each for each in bootstrap_policy.roles() if each["metadata"]["name"] == name)


def test_what_a_default_role_lacks_comes_back_and_what_was_added_stays() -> None:
    wanted = role("system:discovery")
    assert reconciled_role(wanted, wanted) is None
    extra = {"verbs": ["get"], "nonResourceURLs": ["/extra"]}
    poor = {**wanted, "rules": [extra], "metadata": {"name": "system:discovery", "labels": {"mine": "x"}}}
    mended = reconciled_role(poor, wanted)
    assert mended is not None
    assert mended["rules"] == [extra, *wanted["rules"]]
    assert mended["metadata"]["labels"] == {"mine": "x", "kubernetes.io/bootstrapping": "rbac-defaults"}
    rich = {**wanted, "rules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]}
    assert reconciled_role(rich, wanted) is None
    alone = {**poor, "metadata": {"name": "x", "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}}
    assert reconciled_role(alone, wanted) is None
    aggregated = role("edit")
    mended = reconciled_role({**aggregated, "aggregationRule": None}, aggregated)
    assert mended is not None
    assert mended["aggregationRule"] == aggregated["aggregationRule"]


def test_bindings_get_their_subjects_back() -> None:
    wanted = bootstrap_policy.bindings()[0]
    mended = reconciled_binding({**wanted, "subjects": []}, wanted)
    assert mended is not None
    assert mended["subjects"] == wanted["subjects"]
    assert reconciled_binding({**wanted, "subjects": [], "roleRef": {"name": "other"}}, wanted) is None


def test_who_edits_a_namespace_leads_no_traffic_elsewhere() -> None:
    for rule in role("system:aggregate-to-edit")["rules"]:
        if "create" in rule["verbs"] or "update" in rule["verbs"]:
            assert not {"endpoints", "endpointslices", "*"}.intersection(rule.get("resources") or [])

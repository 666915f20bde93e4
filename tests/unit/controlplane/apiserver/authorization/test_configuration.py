"""AuthorizationConfiguration files: what they mean, what is refused, and which requests match conditions let through."""

import json
from pathlib import Path
from typing import Any

import pytest

from component.errors import OperatorError
from controlplane.apiserver.assembly.remote import review_spec
from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.authorization.configuration import read
from controlplane.apiserver.authorization.entries import AuthorizerEntry, WebhookEntry
from controlplane.apiserver.authorization.interface import Attributes
from controlplane.apiserver.authorization.match_conditions import MatchConditions

Object = dict[str, Any]
JANE = UserInfo("jane", groups=("dev",))
LIST_PODS = Attributes(
    JANE, "list", "", True, "", "v1", "pods", "", "team", field_selector="spec.nodeName=n", label_selector="a in (c,b),!d"
)
GET_HEALTH = Attributes(JANE, "get", "/healthz", is_resource=False)


def config(*authorizers: Any) -> tuple[AuthorizerEntry, ...]:
    document = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthorizationConfiguration",
        "authorizers": list(authorizers),
    }
    return read(json.dumps(document).encode())


def webhook(name: str = "hook", **members: Any) -> Object:
    given = {
        "timeout": "3s",
        "subjectAccessReviewVersion": "v1",
        "failurePolicy": "NoOpinion",
        "connectionInfo": {"type": "InClusterConfig"},
        **members,
    }
    return {"type": "Webhook", "name": name, "webhook": {key: value for key, value in given.items() if value is not None}}


def conditions(*expressions: str) -> Object:
    listed = [{"expression": each} for each in expressions]
    return webhook(matchConditions=listed, matchConditionSubjectAccessReviewVersion="v1")


def test_the_order_and_what_webhooks_say(tmp_path: Path) -> None:
    file = tmp_path / "hook.kubeconfig"
    file.write_text("{}")
    connection = {"type": "KubeConfigFile", "kubeConfigFile": str(file)}
    first = webhook(
        "first", connectionInfo=connection, failurePolicy="Deny", authorizedTTL="10s", cacheUnauthorizedRequests=False
    )
    entries = config(first, {"type": "Node", "name": "node"}, webhook("second"), {"type": "RBAC", "name": "rbac"})
    assert [(each.type, each.name) for each in entries] == [
        ("Webhook", "first"),
        ("Node", "node"),
        ("Webhook", "second"),
        ("RBAC", "rbac"),
    ]
    assert entries[0].webhook == WebhookEntry(file, 3.0, True, (10.0, 0.0), "v1", ())
    assert entries[2].webhook == WebhookEntry(None, 3.0, False, (300.0, 30.0), "v1", ())


@pytest.mark.parametrize(
    ("authorizers", "problem"),
    [
        ([], "at least one authorization mode must be defined"),
        ([{"type": "Magic", "name": "m"}], "Unsupported value: 'Magic'"),
        ([{"type": "RBAC", "name": "a"}, {"type": "RBAC", "name": "b"}], "type: Duplicate value"),
        ([webhook("a"), webhook("a")], "name: Duplicate value"),
        ([{"type": "RBAC"}], "name: Required value"),
        ([{"type": "RBAC", "name": "UPPER"}], "authorizer name is invalid"),
        ([{"type": "Webhook", "name": "a"}], "webhook: Required value: required when type=Webhook"),
        ([{**webhook(), "type": "Node"}], "may only be specified when type=Webhook"),
        ([webhook(timeout=None)], "timeout: Required value"),
        ([webhook(timeout="31s")], "must be > 0s and <= 30s"),
        ([webhook(failurePolicy=None)], "failurePolicy: Required value"),
        ([webhook(failurePolicy="Allow")], "failurePolicy: Unsupported value"),
        ([webhook(subjectAccessReviewVersion="v2")], "subjectAccessReviewVersion: Unsupported value"),
        ([webhook(connectionInfo={"type": "KubeConfigFile", "kubeConfigFile": "/nowhere"})], "must be an existing regular file"),
        ([webhook(connectionInfo={"type": "KubeConfigFile", "kubeConfigFile": "x"})], "must be an absolute path"),
        ([webhook(matchConditions=[{"expression": "true"}])], "matchConditionSubjectAccessReviewVersion: Required value"),
        ([conditions("request.who == 'a'")], "undefined field 'who'"),
        ([conditions("true", "true")], "Duplicate value"),
        ([conditions("'a'")], "must evaluate to bool"),
        ([conditions("")], "Required value"),
    ],
)
def test_what_is_refused(authorizers: list[Object], problem: str) -> None:
    with pytest.raises(OperatorError, match=problem):
        config(*authorizers)


@pytest.mark.parametrize(
    ("expression", "asked", "matches"),
    [
        ("has(request.resourceAttributes)", LIST_PODS, True),
        ("has(request.resourceAttributes)", GET_HEALTH, False),
        ("request.resourceAttributes.namespace == 'team'", LIST_PODS, True),
        ("request.resourceAttributes.subresource == ''", LIST_PODS, True),
        ("!('system:nodes' in request.groups)", LIST_PODS, True),
        ("request.resourceAttributes.fieldSelector.requirements.exists(r, r.key == 'spec.nodeName')", LIST_PODS, True),
        ("request.nonResourceAttributes.path.startsWith('/health')", GET_HEALTH, True),
        ("request.extra.exists(k, k == 'x')", LIST_PODS, False),
    ],
)
def test_which_requests_match(expression: str, asked: Attributes, matches: bool) -> None:
    assert MatchConditions([expression]).match(asked) is matches


def test_a_false_condition_counts_more_than_one_without_a_value() -> None:
    broken, false = "request.nonResourceAttributes.path == '/x'", "request.user == 'other'"
    assert MatchConditions([broken, false]).match(LIST_PODS) is False
    with pytest.raises(ValueError, match="no such key"):
        MatchConditions([broken]).match(LIST_PODS)


def test_what_a_webhook_is_sent() -> None:
    spec = review_spec(LIST_PODS)
    assert spec["resourceAttributes"] == {
        "namespace": "team",
        "verb": "list",
        "version": "v1",
        "resource": "pods",
        "fieldSelector": {"requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n"]}]},
        "labelSelector": {
            "requirements": [{"key": "a", "operator": "In", "values": ["b", "c"]}, {"key": "d", "operator": "DoesNotExist"}]
        },
    }
    assert (spec["user"], spec["groups"]) == ("jane", ["dev"])
    older = review_spec(GET_HEALTH, "v1beta1")
    assert older == {"user": "jane", "group": ["dev"], "nonResourceAttributes": {"path": "/healthz", "verb": "get"}}

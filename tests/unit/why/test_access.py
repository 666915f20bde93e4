"""Why a user may not do something, by RBAC."""

from typing import Any

import pytest

from apimachinery.meta import Object
from controlplane.apiserver.authorization.interface import Attributes
from tests.support.explanations import obj, snapshot, text
from why.access import explain, user_of
from why.cause import State


def role(name: str, *rules: Object, namespace: str = "") -> Object:
    kind = "Role" if namespace else "ClusterRole"
    return obj(kind, name, rules=list(rules), **({"namespace": namespace} if namespace else {}))


def rule(verbs: str, resources: str, group: str = "", **more: Any) -> Object:
    return {"verbs": verbs.split(), "resources": resources.split(), "apiGroups": [group], **more}


def binding(name: str, kind: str, role_name: str, *, namespace: str = "", subject: Object | None = None) -> Object:
    reference = {"kind": kind, "name": role_name}
    who = subject or {"kind": "User", "name": "jane"}
    where = {"namespace": namespace} if namespace else {}
    return obj("RoleBinding" if namespace else "ClusterRoleBinding", name, roleRef=reference, subjects=[who], **where)


def asks(verb: str = "delete", resource: str = "pods", user: str = "jane", namespace: str = "shop", **more: Any) -> Attributes:
    return Attributes(user_of(user), verb, resource=resource, namespace=namespace, **more)


VIEW = role("view", rule("get list", "pods"))
EDIT = role("edit", rule("get list delete", "pods"))
ADMIN = role("cluster-admin", rule("*", "*"))
ACCOUNT = {"kind": "ServiceAccount", "name": "bot", "namespace": "shop"}


@pytest.mark.parametrize(
    ("objects", "asked", "says"),
    [
        pytest.param(
            [VIEW, EDIT, ADMIN, binding("jane-view", "ClusterRole", "view", namespace="shop")],
            asks(),
            [
                "user jane: may not delete pods in namespace shop",
                'needed: apiGroups: [""], resources: ["pods"], verbs: ["delete"]',
                "near: RoleBinding 'shop/jane-view' gives ClusterRole 'view', but not the verb delete",
                "get, list on pods of core",
                "not given to the user: ClusterRole edit",
                "kubectl create rolebinding NAME --clusterrole=edit --user=jane -n shop",
            ],
            id="verb",
        ),
        pytest.param(
            [EDIT, binding("jane", "ClusterRole", "edit", namespace="other")],
            asks(),
            ["near: RoleBinding 'other/jane' gives ClusterRole 'edit', but only in namespace other"],
            id="namespace",
        ),
        pytest.param(
            [
                role("one", rule("delete", "pods", resourceNames=["a"]), namespace="shop"),
                binding("b", "Role", "one", namespace="shop"),
            ],
            asks(name="b"),
            ["but only for the names a", "no role for users allows just this"],
            id="name",
        ),
        pytest.param(
            [EDIT, binding("jane", "ClusterRole", "edit")],
            asks("get", subresource="log"),
            ["but not for pods/log", "kubectl create role NAME --verb=get --resource=pods/log -n shop"],
            id="subresource",
        ),
        pytest.param(
            [role("old", rule("list", "ingresses", "extensions")), binding("jane", "ClusterRole", "old")],
            asks("list", "ingresses", api_group="networking.k8s.io"),
            ["but not in the API group 'networking.k8s.io'", "--resource=ingresses.networking.k8s.io"],
            id="group",
        ),
        pytest.param([EDIT], asks(), ["no binding names the user or any of its groups", "system:authenticated"], id="nobody"),
        pytest.param(
            [binding("bot", "Role", "gone", namespace="shop", subject=ACCOUNT), EDIT],
            asks(user="system:serviceaccount:shop:bot"),
            ["rolebinding/bot gives Role gone, which does not exist", "--serviceaccount=shop:bot -n shop"],
            id="a role that is gone",
        ),
        pytest.param(
            [EDIT, binding("jane", "ClusterRole", "edit", namespace="shop")],
            asks(namespace=""),
            ["in the whole cluster", "kubectl create clusterrolebinding NAME --clusterrole=edit --user=jane"],
            id="the whole cluster",
        ),
        pytest.param(
            [],
            Attributes(user_of("jane"), "get", path="/metrics", is_resource=False),
            ["may not get /metrics", "--non-resource-url=/metrics"],
            id="a path",
        ),
    ],
)
def test_what_is_missing_is_named(objects: list[Object], asked: Attributes, says: list[str]) -> None:
    answer = explain(snapshot(*objects), asked)

    shown = text(answer)
    assert answer.state is State.UNWELL
    assert [each for each in says if each not in shown] == [], shown


@pytest.mark.parametrize(
    ("objects", "asked", "says"),
    [
        pytest.param(
            [EDIT, binding("jane", "ClusterRole", "edit", namespace="shop")],
            asks(),
            "RoleBinding 'shop/jane' gives ClusterRole 'edit'",
            id="a binding",
        ),
        pytest.param(
            [], Attributes(user_of("root", ["system:masters"]), "delete", resource="nodes"), "system:masters", id="masters"
        ),
    ],
)
def test_what_is_allowed_says_by_what(objects: list[Object], asked: Attributes, says: str) -> None:
    answer = explain(snapshot(*objects), asked)

    assert (answer.state, says in text(answer)) == (State.WELL, True), text(answer)


def test_bindings_that_may_not_be_read_leave_it_open() -> None:
    answer = explain(snapshot(EDIT, unread=("ClusterRoleBinding",)), asks())

    assert answer.state is State.UNKNOWN
    assert "clusterrolebindings may not be read" in text(answer)

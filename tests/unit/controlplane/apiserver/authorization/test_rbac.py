"""What RBAC remembers of its decisions is never more than what the roles say now."""

import random
from collections.abc import Iterable
from typing import Any

import pytest

from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.authorization import rbac
from controlplane.apiserver.authorization.interface import Attributes, Decision
from controlplane.apiserver.authorization.rbac import RBACAuthorizer

Object = dict[str, Any]


class Source:
    """Roles and bindings of one namespace, which tests change."""

    def __init__(self) -> None:
        self.generation = 0
        self.held: dict[str, Object] = {}

    def grant(self, role: str, user: str, resource: str, verb: str, name: str = "") -> None:
        rule = {"apiGroups": [""], "resources": [resource], "verbs": [verb], "resourceNames": [name] if name else []}
        self.held[role] = {"rules": [rule], "user": user}
        self.generation += 1

    def revoke(self, role: str) -> None:
        del self.held[role]
        self.generation += 1

    def roles(self) -> Iterable[Object]:
        return [{"metadata": {"name": name, "namespace": "a"}, "rules": role["rules"]} for name, role in self.held.items()]

    def role_bindings(self) -> Iterable[Object]:
        for name, role in self.held.items():
            reference = {"kind": "Role", "name": name}
            subjects = [{"kind": "User", "name": role["user"]}]
            yield {
                "kind": "RoleBinding",
                "metadata": {"name": name, "namespace": "a"},
                "roleRef": reference,
                "subjects": subjects,
            }

    def cluster_roles(self) -> Iterable[Object]:
        return ()

    def cluster_role_bindings(self) -> Iterable[Object]:
        return ()


async def may(
    authorizer: RBACAuthorizer, user: str, resource: str, verb: str = "get", name: str = "", namespace: str = "a"
) -> bool:
    asked = Attributes(UserInfo(user), verb, resource=resource, name=name, namespace=namespace)
    return (await authorizer.authorize(asked))[0] is Decision.ALLOW


async def test_a_revoked_role_is_gone_at_once() -> None:
    source = Source()
    authorizer = RBACAuthorizer(source)
    assert not await may(authorizer, "u", "pods")
    source.grant("r", "u", "pods", "get")
    assert [await may(authorizer, "u", "pods") for _ in range(2)] == [True, True]
    source.revoke("r")
    assert not await may(authorizer, "u", "pods")


@pytest.mark.parametrize("seed", range(5))
async def test_remembering_changes_no_decision(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rbac, "_REMEMBERED", 10)
    chance, source = random.Random(seed), Source()
    authorizer = RBACAuthorizer(source)
    for _ in range(400):
        user, resource, verb = chance.choice("uv"), chance.choice(("pods", "nodes")), chance.choice(("get", "list"))
        name, namespace, role = chance.choice(("", "n")), chance.choice("ab"), chance.choice("rst")
        if chance.random() < 0.1:
            source.grant(role, user, resource, verb, name)
        elif role in source.held and chance.random() < 0.1:
            source.revoke(role)
        asked = (user, resource, verb, name, namespace)
        assert await may(authorizer, *asked) == await may(RBACAuthorizer(source), *asked)
        assert len(authorizer._decided) <= 10

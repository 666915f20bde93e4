"""Who may act as whom, and by which permission."""

from collections.abc import Iterable
from typing import Any

import pytest

from apimachinery.errors import StatusError
from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.authorization.interface import Attributes, Decision
from controlplane.apiserver.authorization.rules import Rule, allowed_by, rule
from controlplane.apiserver.filters.impersonation_modes import Impersonation, Wanted

AUTH = "authentication.k8s.io"
REAL = UserInfo("real", groups=("system:authenticated",))
AGENT = UserInfo("system:serviceaccount:kube-system:agent", extra={"authentication.kubernetes.io/node-name": ["n1"]})


class Rules:
    def __init__(self, rules: Iterable[Rule]) -> None:
        self._rules = tuple(rules)

    async def authorize(self, attributes: Attributes) -> tuple[Decision, str]:
        return (Decision.ALLOW if allowed_by(self._rules, attributes) else Decision.NO_OPINION), ""


def listing(user: UserInfo = REAL, resource: str = "pods", verb: str = "list") -> Attributes:
    return Attributes(user, verb, "", True, "", "v1", resource, "", "team")


async def become(wanted: Wanted, asked: Attributes, *rules: Rule, constrained: bool = True) -> tuple[UserInfo, str]:
    return await Impersonation(Rules(rules), constrained=constrained).become(wanted, asked)


def on(mode: str, verb: str = "list") -> Rule:
    return rule(f"impersonate-on:{mode}:{verb}", "core", "pods")


async def test_the_old_way_is_for_everything() -> None:
    user, constraint = await become(Wanted("jane"), listing(), rule("impersonate", "core", "users", "jane"))
    assert (user, constraint) == (UserInfo("jane", groups=("system:authenticated",)), "")


async def test_a_user_for_single_actions() -> None:
    rules = (rule("impersonate:user-info", AUTH, "users groups", "jane", "dev"), on("user-info"))
    user, constraint = await become(Wanted("jane", groups=("dev",)), listing(), *rules)
    assert (user.groups, constraint) == (("dev", "system:authenticated"), "impersonate:user-info")
    for asked in (listing(verb="delete"), listing(resource="secrets")):
        with pytest.raises(StatusError, match="cannot impersonate-on:user-info") as caught:
            await become(Wanted("jane"), asked, *rules)
        assert caught.value.code == 403


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (Wanted("jane", groups=("system:masters",)), "impersonating the system:masters group is not allowed"),
        (Wanted("jane", groups=("",)), "impersonating the empty string group is not allowed"),
        (Wanted("jane", extra={"scopes": ["a"]}), "impersonating an invalid key in extra is not allowed"),
        (Wanted("jane", extra={"example.com/scopes": [""]}), "impersonating the empty string value in extra"),
        (Wanted("jane", uid="7"), 'resource "uids"'),
    ],
)
async def test_what_constrained_modes_never_allow(wanted: Wanted, text: str) -> None:
    rules = (rule("impersonate:user-info", AUTH, "users groups userextras/scopes userextras/example.com/scopes"), on("user-info"))
    with pytest.raises(StatusError, match=text):
        await become(wanted, listing(), *rules)


async def test_accounts_and_nodes_come_with_their_groups() -> None:
    account = Wanted("system:serviceaccount:team:app")
    rules = (rule("impersonate:serviceaccount", AUTH, "serviceaccounts", "app"), on("serviceaccount"))
    user, _ = await become(account, listing(), *rules)
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated")
    node = Wanted("system:node:n1")
    user, constraint = await become(
        node, listing(), rule("impersonate:arbitrary-node", AUTH, "nodes", "n1"), on("arbitrary-node")
    )
    assert (user.groups, constraint) == (("system:nodes", "system:authenticated"), "impersonate:arbitrary-node")
    with pytest.raises(StatusError):  # a node is no user-info
        await become(node, listing(), rule("impersonate:user-info", AUTH, "users nodes"), on("user-info"))


async def test_an_agent_is_its_own_node_and_no_other() -> None:
    rules = (rule("impersonate:associated-node", AUTH, "nodes"), on("associated-node"))
    user, constraint = await become(Wanted("system:node:n1"), listing(AGENT), *rules)
    assert (user.name, constraint) == ("system:node:n1", "impersonate:associated-node")
    for wanted, asker in ((Wanted("system:node:n2"), AGENT), (Wanted("system:node:n1"), REAL)):
        with pytest.raises(StatusError):
            await become(wanted, listing(asker), *rules)


async def test_without_the_gate_only_the_old_way_counts() -> None:
    rules: tuple[Any, ...] = (rule("impersonate:user-info", AUTH, "users"), on("user-info"))
    with pytest.raises(StatusError, match='cannot impersonate resource "users"'):
        await become(Wanted("jane"), listing(), *rules, constrained=False)


async def test_the_anonymous_stay_unknown() -> None:
    user, _ = await become(Wanted("system:anonymous"), listing(), rule("impersonate", "core", "users"))
    assert user.groups == ("system:unauthenticated",)

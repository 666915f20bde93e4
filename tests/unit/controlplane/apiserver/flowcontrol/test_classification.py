"""From stored objects to the flow of a request: the objects that every cluster has, and rules of one's own."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.flowcontrol.classification import classify, distinguisher
from controlplane.apiserver.flowcontrol.configuration import levels_from, limits_of, schemas_from
from controlplane.apiserver.flowcontrol.shuffle import deal, flow_hash
from controlplane.apiserver.kinds.flowcontrol import bootstrap
from controlplane.apiserver.wire.info import parse

OBJECTS = bootstrap.objects()
LEVELS = levels_from(obj for resource, obj in OBJECTS if resource.startswith("priority"))
SCHEMAS = schemas_from((obj for resource, obj in OBJECTS if resource.startswith("flow")), LEVELS)


def user(name: str, *groups: str) -> UserInfo:
    return UserInfo(name, groups=(*groups, "system:authenticated"))


ADMIN, ALICE = user("admin", "system:masters"), user("alice")
NODE = user("system:node:n1", "system:nodes")
SCHEDULER, MANAGER = user("system:kube-scheduler"), user("system:kube-controller-manager")
COREDNS = user("system:serviceaccount:kube-system:coredns", "system:serviceaccounts", "system:serviceaccounts:kube-system")
ROBOT = user("system:serviceaccount:default:robot", "system:serviceaccounts", "system:serviceaccounts:default")
NOBODY = UserInfo("system:anonymous", groups=("system:unauthenticated",))
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1"


@pytest.mark.parametrize(
    ("who", "method", "path", "schema", "level", "flow"),
    [
        (ADMIN, "GET", "/api/v1/pods", "exempt", "exempt", ""),
        (NOBODY, "GET", "/readyz", "probes", "exempt", ""),
        (NOBODY, "GET", "/livez/ping", "probes", "exempt", ""),
        (NOBODY, "GET", "/version", "global-default", "global-default", "system:anonymous"),
        (NODE, "PUT", LEASES, "system-node-high", "node-high", "system:node:n1"),
        (NODE, "PATCH", "/api/v1/nodes/n1/status", "system-node-high", "node-high", "system:node:n1"),
        (NODE, "GET", "/api/v1/pods", "system-nodes", "system", "system:node:n1"),
        (MANAGER, "PUT", LEASES, "system-leader-election", "leader-election", MANAGER.name),
        (MANAGER, "PUT", "/api/v1/namespaces/a/endpoints/b", "endpoint-controller", "workload-high", MANAGER.name),
        (MANAGER, "GET", "/api/v1/namespaces/a/pods", "kube-controller-manager", "workload-high", "a"),
        (SCHEDULER, "GET", "/api/v1/pods", "kube-scheduler", "workload-high", ""),
        (COREDNS, "GET", "/api/v1/services", "kube-system-service-accounts", "workload-high", ""),
        (COREDNS, "PUT", LEASES, "system-leader-election", "leader-election", COREDNS.name),
        (ROBOT, "GET", "/api/v1/services", "service-accounts", "workload-low", ROBOT.name),
        (ALICE, "GET", "/api/v1/services", "global-default", "global-default", "alice"),
        (ALICE, "PUT", LEASES, "global-default", "global-default", "alice"),
        (UserInfo("ghost"), "GET", "/api/v1/services", "catch-all", "catch-all", "ghost"),
    ],
)
def test_the_objects_of_every_cluster(who: UserInfo, method: str, path: str, schema: str, level: str, flow: str) -> None:
    info = parse(method, path, {})
    found = classify(SCHEMAS, who, info)
    assert (found.name, found.level, distinguisher(found, who, info)) == (schema, level, flow)


def stored(name: str, precedence: int, level: str, *rules: dict[str, Any]) -> dict[str, Any]:
    spec = {"matchingPrecedence": precedence, "priorityLevelConfiguration": {"name": level}, "rules": list(rules)}
    return {"metadata": {"name": name, "uid": f"uid-of-{name}"}, "spec": spec}


def rule(resources: dict[str, Any] | None = None, urls: list[str] | None = None, name: str = "alice") -> dict[str, Any]:
    made: dict[str, Any] = {"subjects": [{"kind": "User", "user": {"name": name}}]}
    if resources is not None:
        made["resourceRules"] = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], **resources}]
    if urls is not None:
        made["nonResourceRules"] = [{"verbs": ["get"], "nonResourceURLs": urls}]
    return made


def first(*objects: dict[str, Any], path: str, method: str = "GET", who: UserInfo = ALICE) -> str:
    return classify(schemas_from(objects, LEVELS), who, parse(method, path, {})).name


def test_the_smaller_precedence_wins_and_the_name_among_equals() -> None:
    objects = [stored(name, precedence, "system", rule({})) for name, precedence in (("b", 50), ("a", 50), ("c", 60))]
    assert first(*objects, path="/api/v1/namespaces/x/pods") == "a"


@pytest.mark.parametrize(
    ("resources", "path", "matches"),
    [
        ({}, "/api/v1/namespaces/x/pods", True),
        ({}, "/api/v1/nodes", False),  # has no namespace, and the rule is not clusterScope
        ({"clusterScope": True, "namespaces": []}, "/api/v1/nodes", True),
        ({"clusterScope": True, "namespaces": []}, "/api/v1/namespaces/x/pods", False),
        ({"namespaces": ["y"]}, "/api/v1/namespaces/x/pods", False),
        ({"resources": ["pods"]}, "/api/v1/namespaces/x/pods/a/status", False),
        ({"resources": ["pods/status"]}, "/api/v1/namespaces/x/pods/a/status", True),
        ({"verbs": ["create"]}, "/api/v1/namespaces/x/pods", False),
        ({"apiGroups": ["apps"]}, "/api/v1/namespaces/x/pods", False),
        ({"apiGroups": [""]}, "/version", False),
    ],
)
def test_resource_rules(resources: dict[str, Any], path: str, matches: bool) -> None:
    assert (first(stored("mine", 50, "system", rule(resources)), path=path) == "mine") is matches


@pytest.mark.parametrize(
    ("urls", "path", "matches"),
    [
        (["/version"], "/version", True),
        (["/version"], "/versions", False),
        (["/healthz"], "/healthz/ping", True),
        (["/openapi/*"], "/openapi/v3", True),
        (["/openapi/*"], "/openapi", False),
        (["*"], "/anything", True),
        (["*"], "/api/v1/namespaces/x/pods", False),
    ],
)
def test_path_rules(urls: list[str], path: str, matches: bool) -> None:
    assert (first(stored("mine", 50, "system", rule(urls=urls)), path=path) == "mine") is matches


def test_a_schema_whose_level_is_gone_is_not_asked_and_mandatory_ones_are_supplied() -> None:
    assert first(stored("lost", 50, "nowhere", rule({})), path="/api/v1/namespaces/x/pods") == "catch-all"
    assert first(path="/api/v1/pods", who=ADMIN) == "exempt"
    assert set(levels_from(())) == {"exempt", "catch-all"}
    broken = {"metadata": {"name": "broken"}, "spec": {"type": "Limited"}}
    assert set(levels_from([broken])) == {"exempt", "catch-all"}


def test_seats_of_the_objects_of_every_cluster() -> None:
    """Upstream's numbers for 400 + 200 requests."""
    limits = limits_of(LEVELS, 600)
    nominal = {name: (one.nominal, one.lower) for name, one in limits.items()}
    assert nominal == {
        "exempt": (0, 0),
        "catch-all": (13, 13),
        "system": (74, 50),
        "node-high": (98, 73),
        "leader-election": (25, 25),
        "workload-high": (98, 49),
        "workload-low": (245, 24),
        "global-default": (49, 24),
    }
    assert limits["system"].upper == 674


@given(st.integers(0, 2**64 - 1), st.integers(1, 128), st.integers(1, 8))
def test_a_hand_has_different_cards_of_the_deck(value: int, deck: int, hand: int) -> None:
    hand = min(hand, deck)
    cards = deal(value, deck, hand)
    assert len(set(cards)) == hand
    assert all(0 <= card < deck for card in cards)


def test_hands_are_spread_evenly_and_two_flows_rarely_share_one() -> None:
    hands = [deal(flow_hash("schema", f"user-{number}"), 128, 6) for number in range(4000)]
    counts = [sum(queue in hand for hand in hands) for queue in range(128)]
    expected = 4000 * 6 / 128
    assert max(abs(count - expected) for count in counts) < 5 * expected**0.5
    # a flow that fills its six queues: how many others have none left? 0.00000002 % of them are expected to
    elephant = set(hands[0])
    assert not any(set(hand) <= elephant for hand in hands[1:])


def test_all_hands_of_a_small_deck_are_as_likely() -> None:
    hands = [deal(value, 5, 2) for value in range(20 * 50)]
    assert {hands.count(hand) for hand in set(hands)} == {50}
    assert len(set(hands)) == 20

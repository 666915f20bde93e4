"""Which writes a webhook or policy is about, against upstream's rules."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersion, GroupVersionKind, GroupVersionResource
from controlplane.apiserver.admission.interface import CONNECT, CREATE, DELETE, UPDATE, Attributes, Form, Object
from controlplane.apiserver.admission.matching import Match, Namespaced, is_exempt
from controlplane.apiserver.authentication.interface import UserInfo

EVERY = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}


def write(
    resource: str = "pods",
    operation: str = CREATE,
    *,
    group: str = "",
    version: str = "v1",
    sub: str = "",
    namespace: str = "n",
    name: str = "x",
    obj: Object | None = None,
    old: Object | None = None,
    api: GroupVersion | None = None,
    kind: str = "Kind",
) -> Attributes:
    gvk = GroupVersionKind(group, version, kind)
    return Attributes(operation, gvk, resource, sub, namespace, name, obj, old, UserInfo("u"), api=api)


def labelled(**labels: str) -> Object:
    return {"metadata": {"labels": labels}}


def rule(**changes: Any) -> dict[str, Any]:
    return {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], **changes}


NAMESPACES = {"n": labelled(team="blue")}


def namespaced(attributes: Attributes) -> Namespaced:
    async def lookup(resource: str, namespace: str, name: str) -> Object | None:
        assert (resource, namespace) == ("namespaces", "")
        return NAMESPACES.get(name)

    return Namespaced(attributes, lookup)


async def matches(match: Match, attributes: Attributes, *forms: Form) -> bool:
    return await match.matches(attributes, namespaced(attributes), forms) is not None


@pytest.mark.parametrize(
    ("changes", "attributes", "wanted"),
    [
        ({}, write(), True),
        ({}, write(operation=UPDATE), False),
        ({"operations": ["*"]}, write(operation=CONNECT), True),
        ({}, write(group="apps"), False),
        ({"apiGroups": ["*"]}, write(group="apps"), True),
        ({}, write(version="v2"), False),
        ({"apiVersions": ["*"]}, write(version="v2"), True),
        ({}, write("services"), False),
        ({}, write(sub="status"), False),
        ({"resources": ["pods/status"]}, write(sub="status"), True),
        ({"resources": ["pods/status"]}, write(), False),
        ({"resources": ["pods/*"]}, write(sub="exec"), True),
        ({"resources": ["pods/*"]}, write(), True),
        ({"resources": ["pods/*"]}, write("services"), False),
        ({"resources": ["*"]}, write("services"), True),
        ({"resources": ["*"]}, write(sub="status"), False),
        ({"resources": ["*/scale"]}, write("deployments", sub="scale"), True),
        ({"resources": ["*/scale"]}, write("deployments"), False),
        ({"resources": ["*/*"]}, write("deployments", sub="scale"), True),
        ({"scope": "Namespaced"}, write(), True),
        ({"scope": "Cluster"}, write(), False),
        ({"resources": ["nodes"], "scope": "Cluster"}, write("nodes", namespace=""), True),
        ({"resources": ["nodes"], "scope": "Namespaced"}, write("nodes", namespace=""), False),
        ({"resources": ["namespaces"], "scope": "Cluster"}, write("namespaces", namespace=""), True),
        ({"resources": ["namespaces"], "scope": "Namespaced"}, write("namespaces", namespace=""), False),
        ({"resources": ["namespaces"], "scope": "*"}, write("namespaces", namespace=""), True),
        ({"resourceNames": ["x"]}, write(), True),
        ({"resourceNames": ["y"]}, write(), False),
    ],
)
async def test_rules(changes: dict[str, Any], attributes: Attributes, wanted: bool) -> None:
    assert await matches(Match.compile([rule(**changes)]), attributes) is wanted


async def test_an_object_of_another_group_is_in_the_group_of_its_resource() -> None:
    scale = write("deployments", UPDATE, group="autoscaling", sub="scale", api=GroupVersion("apps", "v1"))
    wanted = rule(operations=["UPDATE"], apiGroups=["apps"], resources=["deployments/scale"])
    assert await matches(Match.compile([wanted]), scale)
    assert scale.group_resource == "deployments.apps"


async def test_no_rules_mean_nothing_to_a_webhook_and_all_to_a_policy() -> None:
    assert not await matches(Match.compile([]), write())
    assert await matches(Match.resources({}), write())
    assert not await matches(Match.resources({"excludeResourceRules": [rule()]}), write())
    assert await matches(Match.resources({"excludeResourceRules": [rule()]}), write("services"))


@pytest.mark.parametrize(
    ("attributes", "wanted"),
    [
        (write(obj=labelled(a="1")), True),
        (write(obj=labelled(a="2")), False),
        (write(operation=UPDATE, obj=labelled(a="2"), old=labelled(a="1")), True),
        (write(operation=DELETE, old=labelled(a="1")), True),
        (write(operation=DELETE, old=labelled()), False),
    ],
)
async def test_object_selectors_look_before_and_after(attributes: Attributes, wanted: bool) -> None:
    assert await matches(Match.compile([EVERY], object_selector={"matchLabels": {"a": "1"}}), attributes) is wanted


async def test_what_has_no_labels_is_not_selected_by_their_absence() -> None:
    match = Match.compile([EVERY], object_selector={"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]})
    assert await matches(match, write(obj=labelled()))
    assert not await matches(match, write(operation=CONNECT, obj={"kind": "PodExecOptions"}))


BLUE = {"matchLabels": {"team": "blue"}}
RED = {"matchLabels": {"team": "red"}}


@pytest.mark.parametrize(
    ("selector", "attributes", "wanted"),
    [
        (BLUE, write(), True),
        (RED, write(), False),
        (RED, write("nodes", namespace=""), True),
        (RED, write("namespaces", namespace="", name="n", obj=labelled(team="red")), True),
        (BLUE, write("namespaces", UPDATE, namespace="", name="n", obj=labelled(team="red")), False),
        (BLUE, write("namespaces", DELETE, namespace="", name="n"), True),
        (RED, write("namespaces", UPDATE, namespace="", name="n", sub="status", obj=labelled(team="red")), False),
    ],
)
async def test_namespace_selectors(selector: Object, attributes: Attributes, wanted: bool) -> None:
    assert await matches(Match.compile([EVERY], namespace_selector=selector), attributes) is wanted


async def test_a_missing_namespace_matters_to_those_who_would_ask_for_its_labels() -> None:
    lost = write(namespace="lost")
    assert await matches(Match.compile([EVERY]), lost)
    assert not await matches(Match.compile([rule(resources=["services"])], namespace_selector=BLUE), lost)
    with pytest.raises(StatusError, match='namespaces "lost" not found'):
        await matches(Match.compile([EVERY], namespace_selector=BLUE), lost)


async def same(obj: Object) -> Object:
    return obj


def form(version: str, resource: str = "pods") -> Form:
    return Form(GroupVersionResource("g", version, resource), GroupVersionKind("g", version, "K"), lambda obj: None, same, same)


OWN, OTHER, THIRD = form("v1"), form("v2"), form("v3")


async def test_other_versions_count_where_the_policy_is_equivalent() -> None:
    attributes = write(group="g")
    v2 = rule(apiGroups=["g"], apiVersions=["v2"])
    exact, equivalent = (Match.compile([v2], match_policy=policy) for policy in ("Exact", "Equivalent"))
    assert not await matches(exact, attributes, OWN, OTHER)
    found = await equivalent.matches(attributes, namespaced(attributes), (OWN, OTHER, THIRD))
    assert found is not None
    assert (found.form, found.resource, found.kind) == (OTHER, OTHER.resource, OTHER.kind)


async def test_the_version_of_the_request_comes_first_and_then_earlier_rules() -> None:
    attributes = write(group="g")
    later = [rule(apiGroups=["g"], apiVersions=[version]) for version in ("v3", "v2")]
    match = Match.compile(later, match_policy="Equivalent")
    found = await match.matches(attributes, namespaced(attributes), (OWN, OTHER, THIRD))
    assert found is not None
    assert found.form is THIRD
    match = Match.compile([*later, rule(apiGroups=["g"])], match_policy="Equivalent")
    found = await match.matches(attributes, namespaced(attributes), (OWN, OTHER, THIRD))
    assert found is not None
    assert found.form is None


async def test_what_is_excluded_is_so_in_every_version() -> None:
    match = Match.resources({"excludeResourceRules": [rule(apiGroups=["g"], apiVersions=["v2"])], "matchPolicy": "Equivalent"})
    assert not await matches(match, write(group="g"), OWN, OTHER)
    assert await matches(match, write(group="g"), OWN)


def test_configurations_of_admission_are_exempt() -> None:
    group = "admissionregistration.k8s.io"
    assert is_exempt(write(group=group, kind="MutatingWebhookConfiguration"))
    assert is_exempt(write(group=group, kind="ValidatingAdmissionPolicyBinding"))
    assert not is_exempt(write(group="other", kind="MutatingWebhookConfiguration"))
    assert not is_exempt(write(kind="Pod"))


words = st.sampled_from(["", "a", "b", "*"])
rules = st.fixed_dictionaries(
    {
        "operations": st.lists(st.sampled_from([CREATE, UPDATE, "*"]), min_size=1, max_size=2),
        "apiGroups": st.lists(words, min_size=1, max_size=2),
        "apiVersions": st.lists(words, min_size=1, max_size=2),
        "resources": st.lists(st.sampled_from(["a", "b", "*", "a/s", "a/*", "*/s", "*/*"]), min_size=1, max_size=2),
        "scope": st.sampled_from(["*", "Namespaced", "Cluster"]),
    }
)
writes = st.builds(
    write,
    st.sampled_from(["a", "b"]),
    st.sampled_from([CREATE, UPDATE]),
    group=st.sampled_from(["", "a", "b"]),
    version=st.sampled_from(["a", "b"]),
    sub=st.sampled_from(["", "s"]),
    namespace=st.sampled_from(["", "n"]),
)


@given(st.lists(rules, max_size=3), rules, writes)
def test_more_rules_never_match_less(some: list[Object], more: Object, attributes: Attributes) -> None:
    if Match.compile(some).by_rules(attributes):
        assert Match.compile([*some, more]).by_rules(attributes)
    matched = [bool(Match.compile([one]).by_rules(attributes)) for one in [*some, more]]
    assert bool(Match.compile([*some, more]).by_rules(attributes)) == any(matched)


@given(rules, writes)
def test_the_widest_rule_takes_all_that_a_narrow_one_takes(narrow: Object, attributes: Attributes) -> None:
    assert Match.compile([EVERY]).by_rules(attributes)
    excluded = Match.resources({"excludeResourceRules": [narrow]}).by_rules(attributes)
    assert bool(excluded) != bool(Match.compile([narrow]).by_rules(attributes))

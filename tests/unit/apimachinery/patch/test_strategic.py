"""Strategic merge patches: lists by merge key, directives, order, and elements that share a merge key."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apimachinery import schema
from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionKind
from apimachinery.patch import strategic

Object = dict[str, Any]

SCHEMAS = schema.load()
POD = SCHEMAS.of(GroupVersionKind("", "v1", "Pod"))
SERVICE = SCHEMAS.of(GroupVersionKind("", "v1", "Service"))
DEPLOYMENT = SCHEMAS.of(GroupVersionKind("apps", "v1", "Deployment"))
BUDGET = SCHEMAS.of(GroupVersionKind("policy", "v1", "PodDisruptionBudget"))

TCP = {"port": 53, "protocol": "TCP", "name": "dns-tcp"}
UDP = {"port": 53, "protocol": "UDP", "name": "dns-udp"}


def spec(patch: Object, original: Object, struct: schema.StructSchema = POD) -> Any:
    return strategic.apply({"spec": original}, {"spec": patch}, struct).get("spec")


@pytest.mark.parametrize(
    ("original", "patch", "result"),
    [
        pytest.param({"a": "1", "b": "2"}, {"b": "3", "c": "4"}, {"a": "1", "b": "3", "c": "4"}, id="maps merge"),
        pytest.param({"a": "1", "b": "2"}, {"b": None, "c": None}, {"a": "1"}, id="null deletes"),
        pytest.param({"a": "1"}, {"$patch": "replace", "b": "2"}, {"b": "2"}, id="replace"),
        pytest.param({"a": "1"}, {"$patch": "delete"}, {}, id="delete"),
        pytest.param({"a": "1"}, {"$patch": "merge", "b": "2"}, {"a": "1", "b": "2"}, id="merge"),
    ],
)
def test_maps(original: Object, patch: Object, result: Object) -> None:
    merged = strategic.apply({"metadata": {"labels": original}}, {"metadata": {"labels": patch}}, POD)
    assert merged == {"metadata": {"labels": result}}


def test_nulls_in_what_is_new_do_not_survive() -> None:
    assert spec({"securityContext": {"runAsUser": 1, "runAsGroup": None}}, {}) == {"securityContext": {"runAsUser": 1}}


@pytest.mark.parametrize(
    ("patch", "result"),
    [
        pytest.param([{"name": "a", "image": "2"}], [{"name": "a", "image": "2"}, {"name": "b", "image": "1"}], id="by key"),
        pytest.param(
            [{"name": "c", "image": "1"}],
            [{"name": "c", "image": "1"}, {"name": "a", "image": "1"}, {"name": "b", "image": "1"}],
            id="new elements go first, as upstream puts them",
        ),
        pytest.param([{"name": "a", "$patch": "delete"}], [{"name": "b", "image": "1"}], id="delete"),
        pytest.param([{"$patch": "replace"}, {"name": "z"}], [{"name": "z"}], id="replace"),
        pytest.param([{"name": "a", "$patch": "replace"}], [{"name": "a"}], id="replace in an element"),
        pytest.param([], [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}], id="empty"),
    ],
)
def test_lists_of_objects(patch: list[Object], result: list[Object]) -> None:
    original = [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]
    assert spec({"containers": patch}, {"containers": original})["containers"] == result


def test_lists_without_a_strategy_are_replaced() -> None:
    assert spec({"containers": [{"name": "a", "command": ["z"]}]}, {"containers": [{"name": "a", "command": ["x", "y"]}]}) == {
        "containers": [{"name": "a", "command": ["z"]}]
    }
    assert spec({"tolerations": [{"key": "b"}]}, {"tolerations": [{"key": "a"}]}) == {"tolerations": [{"key": "b"}]}


def test_replace_strategy() -> None:
    original = {"selector": {"matchLabels": {"a": "b"}}}
    assert spec({"selector": {"matchLabels": {"c": "d"}}}, original, BUDGET) == {"selector": {"matchLabels": {"c": "d"}}}


def test_lists_of_primitives_are_sets() -> None:
    patch: Object = {"metadata": {"finalizers": ["b", "c"]}}
    assert strategic.apply({"metadata": {"finalizers": ["a", "b"]}}, patch, POD) == {"metadata": {"finalizers": ["a", "b", "c"]}}
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "x"]}}
    assert strategic.apply({"metadata": {"finalizers": ["a", "b"]}}, patch, POD) == {"metadata": {"finalizers": ["b"]}}
    assert strategic.apply({"metadata": {}}, patch, POD) == {"metadata": {}}


def test_retain_keys_leaves_one_member_of_a_union() -> None:
    volumes = [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}]
    patch = [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]
    assert spec({"volumes": patch}, {"volumes": volumes})["volumes"] == [
        {"name": "v", "hostPath": {"path": "/x"}},
        {"name": "w", "emptyDir": {}},
    ]
    strategy = {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}
    rolling = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}
    assert spec(strategy, rolling, DEPLOYMENT) == {"strategy": {"type": "Recreate"}}


def test_set_element_order() -> None:
    original = {"containers": [{"name": name} for name in "abcd"]}
    patch = {"$setElementOrder/containers": [{"name": "d"}, {"name": "b"}], "containers": [{"name": "b", "image": "x"}]}
    names = [each["name"] for each in spec(patch, original)["containers"]]
    assert names == ["a", "c", "d", "b"]
    only_order = {"$setElementOrder/containers": [{"name": name} for name in "dcba"]}
    assert [each["name"] for each in spec(only_order, original)["containers"]] == ["d", "c", "b", "a"]


# Elements that share a merge key


def test_ports_are_told_apart_by_protocol() -> None:
    result = spec({"ports": [{"port": 53, "protocol": "UDP", "targetPort": 5353}]}, {"ports": [TCP, UDP]}, SERVICE)
    assert result["ports"] == [TCP, {**UDP, "targetPort": 5353}]


def test_a_patch_of_both_leaves_both() -> None:
    assert spec({"ports": [UDP, TCP]}, {"ports": [TCP, UDP]}, SERVICE)["ports"] == [TCP, UDP]


def test_a_second_protocol_is_added() -> None:
    patch = {"$setElementOrder/ports": [{"port": 53}, {"port": 53}], "ports": [UDP]}
    assert spec(patch, {"ports": [TCP]}, SERVICE)["ports"] == [TCP, UDP]
    assert spec({"ports": [TCP, UDP]}, {"ports": [TCP]}, SERVICE)["ports"] == [TCP, UDP]


def test_the_protocol_of_a_single_port_changes_in_place() -> None:
    patch = {"$setElementOrder/ports": [{"port": 53}], "ports": [{"port": 53, "protocol": "UDP"}]}
    assert spec(patch, {"ports": [TCP]}, SERVICE)["ports"] == [{**TCP, "protocol": "UDP"}]


def test_no_protocol_means_tcp() -> None:
    bare = {"port": 53, "name": "dns-tcp"}
    assert spec({"ports": [{"port": 53, "protocol": "TCP", "targetPort": 1}]}, {"ports": [UDP, bare]}, SERVICE)["ports"] == [
        UDP,
        {**bare, "protocol": "TCP", "targetPort": 1},
    ]


def test_deleting_by_merge_key_takes_all_and_by_protocol_one() -> None:
    assert spec({"ports": [{"$patch": "delete", "port": 53}]}, {"ports": [TCP, UDP]}, SERVICE)["ports"] == []
    one = [{"$patch": "delete", "port": 53, "protocol": "UDP"}]
    assert spec({"ports": one}, {"ports": [TCP, UDP]}, SERVICE)["ports"] == [TCP]


# Refusals


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        pytest.param({"containers": [{"image": "x"}]}, "does not contain declared merge key: name", id="no merge key"),
        pytest.param({"containers": ["x"]}, "must be objects", id="primitive element"),
        pytest.param({"securityContext": {"$patch": "dance"}}, "unknown patch type found: dance", id="unknown directive"),
        pytest.param({"containers": [{"name": "a", "$patch": "dance"}]}, "unknown patch type found: dance", id="in a list"),
        pytest.param({"volumes": [{"name": "v", "$retainKeys": "x"}]}, "invalid patch format of retainKeys", id="retainKeys"),
        pytest.param(
            {"volumes": [{"name": "v", "$retainKeys": ["name"], "emptyDir": {}}]},
            "invalid patch format of retainKeys",
            id="field not retained",
        ),
        pytest.param(
            {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "b"}]},
            "doesn't match $setElementOrder list",
            id="order without the element",
        ),
        pytest.param({"$setElementOrder/containers": "x", "containers": []}, "setElementOrder", id="order of no list"),
    ],
)
def test_senseless_patches_are_400(patch: Object, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        spec(patch, {"containers": [{"name": "a"}], "volumes": [{"name": "v"}]})
    assert caught.value.code == 400
    assert message in caught.value.message


def test_a_patch_is_an_object() -> None:
    with pytest.raises(StatusError):
        strategic.apply({}, [1], POD)


# Laws

NAMES = st.sampled_from("abc")
CONTAINERS = st.lists(
    st.fixed_dictionaries({"name": NAMES}, optional={"image": st.sampled_from(["1", "2"])}), unique_by=lambda each: each["name"]
)


@given(CONTAINERS, CONTAINERS)
def test_patching_twice_is_patching_once_and_arguments_stay(original: list[Object], patch: list[Object]) -> None:
    obj: Object = {"spec": {"containers": original}}
    before = copy.deepcopy((obj, patch))
    once = strategic.apply(obj, {"spec": {"containers": patch}}, POD)
    assert (obj, patch) == before
    assert strategic.apply(once, {"spec": {"containers": patch}}, POD) == once
    found = {each["name"]: each for each in once["spec"]["containers"]}
    assert found.keys() == {each["name"] for each in original + patch}
    assert all(found[each["name"]].items() >= each.items() for each in patch)

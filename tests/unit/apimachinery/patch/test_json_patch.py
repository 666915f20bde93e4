"""JSON patch and merge patch."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apimachinery.errors import StatusError
from apimachinery.patch import json_patch, merge_patch

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=10,
)
OBJECTS = st.dictionaries(st.text(max_size=2), JSON, max_size=4)


def op(kind: str, path: str, **more: Any) -> dict[str, Any]:
    return {"op": kind, "path": path, **more}


@pytest.mark.parametrize(
    ("patch", "result"),
    [
        ([op("add", "/b", value=1)], {"a": [1, 2], "b": 1}),
        ([op("add", "/a/-", value=3)], {"a": [1, 2, 3]}),
        ([op("add", "/a/0", value=0)], {"a": [0, 1, 2]}),
        ([op("remove", "/a/0")], {"a": [2]}),
        ([op("replace", "/a", value="x")], {"a": "x"}),
        ([op("move", "/b", **{"from": "/a"})], {"b": [1, 2]}),
        ([op("copy", "/b", **{"from": "/a"}), op("remove", "/b/0")], {"a": [1, 2], "b": [2]}),
        ([op("test", "/a/0", value=1), op("replace", "/a/0", value=5)], {"a": [5, 2]}),
        ([op("add", "/x~1y", value=1)], {"a": [1, 2], "x/y": 1}),
        ([], {"a": [1, 2]}),
    ],
)
def test_operations(patch: list[Any], result: Any) -> None:
    original = {"a": [1, 2]}
    assert json_patch.apply(original, patch) == result
    assert original == {"a": [1, 2]}


@pytest.mark.parametrize(
    "patch",
    [
        [op("remove", "/nope")],
        [op("replace", "/nope", value=1)],
        [op("add", "/nope/x", value=1)],
        [op("add", "/a/7", value=1)],
        [op("test", "/a", value=[1, True])],
        [op("test", "/flag", value=1)],
        [op("dance", "/a")],
        [op("add", "/a")],
        [op("move", "/b")],
        [op("copy", "/b")],
        [op("remove", "")],
        [{"op": "add", "path": 5, "value": 1}],
    ],
)
def test_patches_that_do_not_apply_are_422(patch: list[Any]) -> None:
    with pytest.raises(StatusError) as caught:
        json_patch.apply({"a": [1, 2], "flag": True}, patch)
    assert (caught.value.code, caught.value.reason) == (422, "Invalid")
    assert caught.value.message == "the server rejected our request due to an error in our request"


@pytest.mark.parametrize(
    ("failing", "why"),
    [
        (op("remove", "/m/x~1y"), "error in remove for path: '/m/x~1y': Unable to remove nonexistent key: x/y: missing value"),
        (op("remove", "/n/x"), 'remove operation does not apply: doc is missing path: "/n/x": missing value'),
        (op("add", "/m/n/x", value=1), 'add operation does not apply: doc is missing path: "/m/n/x": missing value'),
        (op("replace", "/m/x", value=1), "replace operation does not apply: doc is missing key: /m/x: missing value"),
        (op("test", "/b", value=2), "testing value /b failed: test failed"),
    ],
)
def test_why_a_patch_does_not_apply_is_noted(failing: dict[str, Any], why: str) -> None:
    with pytest.raises(StatusError) as caught:
        json_patch.apply({"m": {}}, [op("add", "/b", value=1), failing, op("remove", "/b")])
    assert caught.value.__notes__ == [why]


@pytest.mark.parametrize("patch", [{"op": "add"}, "x", 5, [1], [None]])
def test_what_is_no_patch_is_400(patch: Any) -> None:
    with pytest.raises(StatusError) as caught:
        json_patch.apply({}, patch)
    assert caught.value.code == 400


def test_bounds() -> None:
    with pytest.raises(StatusError) as caught:
        json_patch.apply({}, [op("add", "/a", value=1)] * 10_001)
    assert caught.value.code == 413
    assert caught.value.message == "The allowed maximum operations in a JSON patch is 10000, got 10001"
    doubling = [op("copy", "/a/-", **{"from": "/a"}) for _ in range(60)]
    with pytest.raises(StatusError) as caught:
        json_patch.apply({"a": ["x" * 1000]}, doubling)
    assert caught.value.code == 413


@pytest.mark.parametrize(
    ("original", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patches_of_the_rfc(original: Any, patch: Any, result: Any) -> None:
    assert merge_patch.apply(original, patch) == result


@pytest.mark.parametrize("patch", [[1], "x", None])
def test_a_merge_patch_is_an_object(patch: Any) -> None:
    with pytest.raises(StatusError) as caught:
        merge_patch.apply({}, patch)
    assert caught.value.code == 400


@given(OBJECTS, OBJECTS)
def test_merging_twice_is_merging_once(original: dict[str, Any], patch: dict[str, Any]) -> None:
    once = merge_patch.apply(original, patch)
    assert merge_patch.apply(once, patch) == once

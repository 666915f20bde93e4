"""Laws of server-side apply, for arbitrary pod specs and field sets."""

import copy
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from apimachinery import schema
from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionKind
from apimachinery.patch import apply, fieldset

Object = dict[str, Any]

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
POD = schema.load().of(GroupVersionKind("", "v1", "Pod"))

NAMES = st.sampled_from("abcd")
TEXTS = st.sampled_from(["", "x", "y"])
ENV = st.lists(st.fixed_dictionaries({"name": NAMES}, optional={"value": TEXTS}), unique_by=lambda each: each["name"], max_size=3)
PORT_KEYS = {"containerPort": st.integers(1, 3), "protocol": st.sampled_from(["TCP", "UDP"])}
PORTS = st.lists(
    st.fixed_dictionaries(PORT_KEYS, optional={"name": TEXTS}),
    unique_by=lambda each: (each["containerPort"], each["protocol"]),
    max_size=3,
)
COMMANDS = st.lists(TEXTS, max_size=2)
CONTAINERS = st.lists(
    st.fixed_dictionaries({"name": NAMES}, optional={"image": TEXTS, "env": ENV, "ports": PORTS, "command": COMMANDS}),
    unique_by=lambda each: each["name"],
    max_size=3,
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "containers": CONTAINERS,
        "hostNetwork": st.booleans(),
        "nodeSelector": st.dictionaries(NAMES, TEXTS, max_size=2),
        "securityContext": st.fixed_dictionaries({}, optional={"runAsUser": st.integers(0, 2)}),
    },
)
LABELS = st.dictionaries(NAMES, TEXTS, max_size=3)


@st.composite
def configs(draw: st.DrawFn) -> Object:
    metadata: Object = {"name": "p"}
    if labels := draw(LABELS):
        metadata["labels"] = labels
    obj: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    if spec := draw(SPECS):
        obj["spec"] = schema_normal(spec)
    return obj


def schema_normal(spec: Object) -> Object:
    obj = {"spec": copy.deepcopy(spec)}
    schema.prune(obj, POD)
    if not obj["spec"].get("containers"):  # a required list stays when it is empty, but there is nothing in it to own
        obj["spec"].pop("containers", None)
    return obj["spec"]


def run(live: Object | None, config: Object, manager: str, *, force: bool = True) -> Object:
    return apply.apply(live, config, manager, force, POD, NOW)


def content(obj: Object) -> Object:
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


def sets(obj: Object) -> dict[str, Object]:
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", [])}


@given(configs(), configs())
def test_applying_twice_is_applying_once(first: Object, second: Object) -> None:
    live = run(run(None, first, "one"), second, "two")
    assert run(live, second, "two") == live


@given(configs(), configs())
def test_what_is_applied_is_there(first: Object, second: Object) -> None:
    live = run(run(None, first, "one"), second, "two")
    assert contains(live, second)


def contains(obj: Any, config: Any) -> bool:
    """Objects by field, lists of named objects by element, all else as it is."""
    if config == [] and isinstance(obj, list):
        return True
    if isinstance(config, dict) and isinstance(obj, dict):
        return all(key in obj and contains(obj[key], value) for key, value in config.items())
    if isinstance(config, list) and config and isinstance(config[0], dict):
        return all(any(contains(each, item) for each in obj) for item in config)
    return bool(obj == config)


@given(configs(), configs())
def test_no_foreign_field_changes_without_force(first: Object, second: Object) -> None:
    live = run(None, first, "one")
    try:
        merged = run(live, second, "two", force=False)
    except StatusError as problem:
        assert problem.reason == "Conflict"  # noqa: PT017
        return
    assert contains(merged, first)
    assert sets(merged).get("one", {}) == sets(live).get("one", {})


@given(configs(), configs())
def test_disjoint_configurations_commute(first: Object, second: Object) -> None:
    try:
        one_two = run(run(None, first, "one", force=False), second, "two", force=False)
        two_one = run(run(None, second, "two", force=False), first, "one", force=False)
    except StatusError:
        return
    assert sets(one_two) == sets(two_one)
    assert unordered(content(one_two)) == unordered(content(two_one))


def unordered(value: Any) -> Any:
    """Element order is the one thing that depends on who came first."""
    if isinstance(value, dict):
        return {key: unordered(value[key]) for key in sorted(value)}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return sorted((unordered(item) for item in value), key=repr)
    return value


@given(configs(), configs())
def test_applying_nothing_gives_everything_back(first: Object, second: Object) -> None:
    nothing = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    try:
        live = run(run(None, first, "one", force=False), second, "two", force=False)
    except StatusError:
        return
    left = run(live, nothing, "two")
    assert contains(left, first)
    assert "two" not in sets(left)
    assert sets(left).get("one", {}) == sets(run(None, first, "one")).get("one", {})


@given(configs(), configs())
def test_no_path_has_two_updaters_after_a_change(first: Object, second: Object) -> None:
    old = copy.deepcopy(first)
    apply.track_update(None, old, "one", "Update", POD, NOW)
    new = copy.deepcopy(second)
    apply.track_update(old, new, "two", "Update", POD, NOW)
    held = sets(new)
    changed = held.get("two", {})
    assert fieldset.intersection(held.get("one", {}), changed) == {}


# Field sets

STEPS = st.sampled_from(["f:a", "f:b", "f:c"])
NODES: st.SearchStrategy[Object] = st.recursive(
    st.just({}), lambda inner: st.dictionaries(st.one_of(STEPS, st.just(".")), inner, max_size=3), max_leaves=8
)


def tidy(node: Object, *, root: bool = True) -> Object:
    """Well-formed: ``"."`` holds nothing and stands beside something, and the root has none."""
    result = {key: tidy(inner, root=False) for key, inner in node.items() if key != "."}
    if "." in node and result and not root:
        return {".": {}, **result}
    return result


SETS = NODES.map(tidy)


def members(fields: Object) -> set[str]:
    return set(fieldset.paths(fields))


@given(SETS, SETS)
@settings(max_examples=300)
def test_field_sets_are_sets(left: Object, right: Object) -> None:
    before = copy.deepcopy((left, right))
    assert members(fieldset.union(left, right)) == members(left) | members(right)
    assert members(fieldset.difference(left, right)) == members(left) - members(right)
    assert members(fieldset.intersection(left, right)) == members(left) & members(right)
    assert (left, right) == before


@given(SETS, SETS)
def test_sets_with_the_same_members_are_equal(left: Object, right: Object) -> None:
    rebuilt = fieldset.union(fieldset.difference(left, right), fieldset.intersection(left, right))
    assert fieldset.ordered(rebuilt) == fieldset.ordered(left)

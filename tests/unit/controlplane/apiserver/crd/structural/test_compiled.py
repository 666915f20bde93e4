"""A schema at work: unknown fields, metadata, embedded resources, defaults, and what is true of any schema."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings

from apimachinery.schema.types import ListSchema, MapSchema, ScalarSchema, StructSchema
from controlplane.apiserver.crd.structural import (
    Structural,
    UnsupportedSchemaError,
    compile_structural,
    defaulting,
    pruning,
    values,
)
from controlplane.apiserver.crd.structural.node import Node, read
from tests.unit.controlplane.apiserver.crd.structural.schemas import SCHEMAS, VALUES, Object


def of(**properties: Object) -> Structural:
    return compile_structural({"type": "object", "properties": properties})


def resource(**fields: Any) -> Object:
    return {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}, **fields}


TEXT = {"type": "string"}
EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}


def test_unknown_fields_go_and_are_named() -> None:
    items = {"type": "array", "items": {"type": "object", "properties": {"a": TEXT}}}
    schema = of(spec={"type": "object", "properties": {"items": items}})
    obj = resource(spec={"items": [{"a": "x", "b": 1}], "c": {}}, d=1)
    obj["metadata"]["foo"] = 1
    findings = schema.normalize(obj)
    assert obj == resource(spec={"items": [{"a": "x"}]})
    assert findings.unknown == [
        'unknown field "metadata.foo"',
        'unknown field "d"',
        'unknown field "spec.c"',
        'unknown field "spec.items[0].b"',
    ]
    assert findings.type_errors == []


@pytest.mark.parametrize(
    ("schema", "value", "kept"),
    [
        ({"x-kubernetes-preserve-unknown-fields": True}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        (
            {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
                "properties": {"a": {"type": "object", "properties": {}}},
            },
            {"a": {"b": 1}, "c": {"d": 1}},
            {"a": {}, "c": {"d": 1}},
        ),
        ({"type": "object", "additionalProperties": TEXT}, {"a": "b", "c": {"d": 1}}, {"a": "b", "c": {}}),
        ({"type": "object", "additionalProperties": True}, {"a": "b", "c": {"d": 1}}, {"a": "b", "c": {}}),
        ({"type": "object", "properties": {"a": TEXT}}, {"a": None}, {}),
        ({"type": "object", "properties": {"a": {**TEXT, "nullable": True}}}, {"a": None}, {"a": None}),
        ({"type": "object", "properties": {"a": {**TEXT, "default": "x"}}}, {"a": None}, {"a": None}),
        ({"type": "array", "items": {"type": "object", "properties": {}}}, [{"a": 1}, None], [{}, None]),
        (EMBEDDED, {"kind": "A", "x": {"y": 1}}, {"kind": "A", "x": {"y": 1}}),
    ],
)
def test_what_is_kept(schema: Object, value: Any, kept: Any) -> None:
    pruning.prune(value, read(schema))
    assert value == kept


def test_metadata_is_as_every_kinds() -> None:
    schema = of()
    obj = {**resource(), "metadata": {"labels": {"a": 1}}}
    assert schema.normalize(copy.deepcopy(obj)).type_errors == [
        "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"
    ]
    obj["metadata"]["name"] = "a"
    assert schema.normalize(obj, lenient=True).type_errors == []
    assert obj["metadata"] == {"name": "a"}


def test_embedded_resources_have_metadata_too() -> None:
    schema = of(pod=EMBEDDED)
    obj = resource(pod={"kind": "Pod", "metadata": {"name": "A/b", "foo": 1, "labels": {"-": "x"}}, "spec": {"x": 1}})
    assert schema.normalize(obj).unknown == ['unknown field "pod.metadata.foo"']
    found = [str(error) for error in schema.validate(obj)]
    assert found[0] == "pod.apiVersion: Required value"
    assert found[1].startswith("pod.metadata.name: Invalid value: \"A/b\": may not contain '/'")
    assert found[2].startswith('pod.metadata.labels: Invalid value: "-": name part must consist of')
    wrong = resource(pod={"apiVersion": "v1", "kind": 1, "metadata": {"labels": []}})
    assert schema.normalize(wrong).type_errors == [
        "pod.kind: Invalid value: 1: must be a string",
        'pod.metadata: Invalid value: {"labels":[]}: '
        "json: cannot unmarshal array into Go struct field ObjectMeta.labels of type map[string]string",
    ]


def test_defaults() -> None:
    inner = {"type": "object", "default": {}, "properties": {"b": {**TEXT, "default": "x"}}}
    schema = of(
        spec=inner,
        null={**TEXT, "default": "y"},
        nullable={**TEXT, "default": "z", "nullable": True},
        map={"type": "object", "additionalProperties": inner},
        list={"type": "array", "items": inner},
    )
    obj = resource(null=None, nullable=None, map={"k": {}}, list=[{}, {"b": "w"}, None])
    schema.default(obj)
    full = {"b": "x"}
    assert obj == resource(null="y", nullable=None, spec=full, map={"k": full}, list=[full, {"b": "w"}, full])
    obj["spec"]["b"] = "changed"
    other = resource()
    schema.default(other)
    assert other["spec"] == full


def test_server_side_apply_sees_lists_and_maps() -> None:
    keyed = {
        "type": "array",
        "items": {"type": "object", "properties": {"k": {**TEXT, "default": "d"}}},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
    }
    schema = of(
        spec={
            "type": "object",
            "properties": {"l": keyed, "n": {"type": "integer"}},
            "x-kubernetes-preserve-unknown-fields": True,
        },
        m={"type": "object", "additionalProperties": TEXT, "x-kubernetes-map-type": "atomic"},
        any={"x-kubernetes-preserve-unknown-fields": True},
    ).apply_schema
    spec = schema.fields["spec"].schema
    assert isinstance(spec, StructSchema)
    assert spec.open
    assert not schema.open
    keyed_list = spec.fields["l"].schema
    assert isinstance(keyed_list, ListSchema)
    assert (keyed_list.list_type, keyed_list.keys) == ("map", ("k",))
    assert isinstance(keyed_list.element, StructSchema)
    assert keyed_list.element.fields["k"].default == "d"
    assert spec.fields["n"].schema == ScalarSchema("int64")
    assert schema.fields["m"].schema == MapSchema(ScalarSchema("string"), atomic=True)
    assert schema.fields["any"].schema == ScalarSchema("any")
    assert schema.fields["metadata"].schema.name == "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def test_a_schema_that_is_not_structural_is_refused() -> None:
    with pytest.raises(UnsupportedSchemaError, match=r"openAPIV3Schema.type: Required value: must not be empty at the root"):
        compile_structural({})
    with pytest.raises(UnsupportedSchemaError, match=r"OpenAPIV3Schema '\$ref' is not supported"):
        compile_structural({"type": "object", "$ref": "#/a"})


@settings(max_examples=40)
@given(SCHEMAS, VALUES)
def test_pruning_twice_is_pruning_once(schema: Object, value: Any) -> None:
    node = read(schema)
    pruning.prune(value, node)
    once = copy.deepcopy(value)
    assert pruning.fits(value, node)
    assert pruning.prune(value, node) == []
    assert value == once


@settings(max_examples=40)
@given(SCHEMAS, VALUES)
def test_what_fits_is_not_changed(schema: Object, value: Any) -> None:
    node, before = read(schema), copy.deepcopy(value)
    if pruning.fits(value, node):
        assert pruning.prune(value, node) == []
    pruning._prune(value, node, False, False, "", found := [])
    assert (value == before) == pruning.fits(before, node)
    assert bool(found) <= (value != before)


@settings(max_examples=40)
@given(SCHEMAS, VALUES)
def test_defaulting_twice_is_defaulting_once(schema: Object, value: Any) -> None:
    """With a default wherever a field of text may be."""
    fill = defaulting.compiled(read(_with_defaults(schema)))
    if fill is not None:
        fill(value)
        once = copy.deepcopy(value)
        fill(value)
        assert value == once


def _with_defaults(schema: Object) -> Object:
    made = dict(schema)
    if made.get("type") == "string":
        made["default"] = "x"
    if "properties" in made:
        made["properties"] = {name: _with_defaults(inner) for name, inner in made["properties"].items()}
    if isinstance(made.get("items"), dict):
        made["items"] = _with_defaults(made["items"])
    return made


def test_where_resources_are_embedded_is_found_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not again for each of the elements of a list."""
    walked: list[Node] = []
    below = Node.below

    def seen(node: Node) -> Iterator[Node]:
        walked.append(node)
        return below(node)

    monkeypatch.setattr(Node, "below", seen)
    plain = {f"p{at}": {"type": "object", "properties": {"a": TEXT}} for at in range(20)}
    items = {"type": "object", "properties": {**plain, "z": EMBEDDED}}
    schema = of(spec={"type": "object", "properties": {"items": {"type": "array", "items": items}}})
    schema.normalize(resource(spec={"items": [{"p1": {"a": "x"}}] * 100}))
    assert len(walked) == len(set(map(id, walked)))


@pytest.mark.parametrize("wrong", [1, 30_000])
@pytest.mark.parametrize("many", [list, dict])
def test_of_a_very_long_list_or_map_enough_is_told(wrong: int, many: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """The words are looked for where something is wrong, and no longer than anybody would read."""
    walked = 0
    slow = values._validate

    def counted(*given: Any, **more: Any) -> values.Result:
        nonlocal walked
        walked += 1
        return slow(*given, **more)

    monkeypatch.setattr(values, "_validate", counted)
    kind = {"type": "array", "items": TEXT} if many is list else {"type": "object", "additionalProperties": TEXT}
    held = ["x"] * 30_000 + [1] * wrong
    sent = held if many is list else {f"k{at}": each for at, each in enumerate(held)}
    found = of(spec=kind).validate(resource(spec=sent))
    assert len(found) == min(wrong, values.MANY)
    assert str(found[0]).startswith("spec[30000]: " if many is list else "spec.k30000: ")
    assert walked <= len(found) + 10

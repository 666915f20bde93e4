"""What is said of values that do not fulfil their schema, in upstream's words."""

from typing import Any

import pytest
from hypothesis import given, settings

from apimachinery import fieldpath
from controlplane.apiserver.crd.structural import fast, listtype, values
from controlplane.apiserver.crd.structural.node import read
from tests.unit.controlplane.apiserver.crd.structural.schemas import SCHEMAS, VALUES, Object, combined


def said(schema: Object, value: Any, *old: Any) -> list[str]:
    return [str(error) for error in values.problems({"spec": value}, read({"properties": {"spec": schema}}), "", *old)]


@pytest.mark.parametrize(
    ("schema", "value", "wanted"),
    [
        pytest.param(
            {"type": "integer"}, "a", ['spec: Invalid value: "string": spec in body must be of type integer: "string"'], id="type"
        ),
        pytest.param(
            {"type": "integer"},
            1.5,
            ['spec: Invalid value: "number": spec in body must be of type integer: "number"'],
            id="fraction",
        ),
        pytest.param({"type": "integer"}, 2.0, [], id="a whole float is an integer"),
        pytest.param({"type": "number"}, 2, [], id="an integer is a number"),
        pytest.param(
            {"type": "boolean"}, 1, ['spec: Invalid value: "integer": spec in body must be of type boolean: "integer"'], id="bool"
        ),
        pytest.param(
            {"type": "string"}, None, ['spec: Invalid value: "null": spec in body must be of type string: "null"'], id="null"
        ),
        pytest.param({"type": "string", "nullable": True}, None, [], id="nullable"),
        pytest.param(
            {"x-kubernetes-int-or-string": True},
            True,
            ['spec: Invalid value: "boolean": spec in body must be of type integer,string: "boolean"'],
            id="int or string",
        ),
        pytest.param(
            {"type": "string", "format": "date"},
            "now",
            ['spec: Invalid value: "now": spec in body must be of type date: "now"'],
            id="format",
        ),
        pytest.param({"type": "string", "format": "unheard-of"}, "now", [], id="unknown format"),
        pytest.param({"type": "string", "maxLength": 2}, "äöü", ["spec: Too long: may not be more than 2 bytes"], id="long"),
        pytest.param(
            {"type": "string", "minLength": 2},
            "a",
            ['spec: Invalid value: "a": spec in body should be at least 2 chars long'],
            id="short",
        ),
        pytest.param(
            {"type": "string", "pattern": "^[a-z]+$"},
            "A",
            ["spec: Invalid value: \"A\": spec in body should match '^[a-z]+$'"],
            id="pattern",
        ),
        pytest.param(
            {"type": "string", "enum": ["a", "b"]}, "c", ['spec: Unsupported value: "c": supported values: "a", "b"'], id="enum"
        ),
        pytest.param(
            {"type": "integer", "minimum": 1},
            0,
            ["spec: Invalid value: 0: spec in body should be greater than or equal to 1"],
            id="minimum",
        ),
        pytest.param(
            {"type": "number", "maximum": 1.5, "exclusiveMaximum": True},
            1.5,
            ["spec: Invalid value: 1.5: spec in body should be less than 1.5"],
            id="exclusive",
        ),
        pytest.param(
            {"type": "integer", "multipleOf": 3},
            4,
            ["spec: Invalid value: 4: spec in body should be a multiple of 3"],
            id="multiple",
        ),
        pytest.param({"type": "number", "multipleOf": 0.1}, 0.3, [], id="multiple of a fraction"),
        pytest.param(
            {"type": "array", "items": {"type": "string"}, "maxItems": 1},
            ["a", 1],
            [
                'spec[1]: Invalid value: "integer": spec[1] in body must be of type string: "integer"',
                "spec: Too many: 2: must have at most 1 item",
            ],
            id="items",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "string"}, "minItems": 1},
            [],
            ["spec: Invalid value: 0: spec in body should have at least 1 items"],
            id="few items",
        ),
        pytest.param({"type": "object", "required": ["a"]}, {}, ["spec.a: Required value"], id="required"),
        pytest.param(
            {"type": "object", "maxProperties": 1}, {"a": 1, "b": 1}, ["spec: Too many: 2: must have at most 1 item"], id="many"
        ),
        pytest.param(
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"a": 1},
            ['spec.a: Invalid value: "integer": spec.a in body must be of type string: "integer"'],
            id="map",
        ),
        pytest.param(
            {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {},
            ['<nil>: Invalid value: "": "spec" must validate at least one schema (anyOf)', "spec.a: Required value"],
            id="any of",
        ),
        pytest.param(
            {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"a": 1, "b": 1},
            ['<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found 2 valid alternatives'],
            id="one of",
        ),
        pytest.param(
            {"type": "object", "allOf": [{"required": ["a"]}]},
            {},
            ["spec.a: Required value", '<nil>: Invalid value: "": "spec" must validate all the schemas (allOf). None validated'],
            id="all of",
        ),
        pytest.param(
            {"type": "object", "not": {"required": ["a"]}},
            {"a": 1},
            ['<nil>: Invalid value: "": "spec" must not validate the schema (not)'],
            id="not",
        ),
    ],
)
def test_what_is_said(schema: Object, value: Any, wanted: list[str]) -> None:
    assert said(schema, value) == wanted


def test_what_stayed_as_it_was_is_tolerated_where_it_is_found_again() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "minimum": 5},
            "map": {
                "type": "array",
                "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer", "minimum": 5}}},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
            },
            "atomic": {"type": "array", "items": {"type": "integer", "minimum": 5}},
        },
    }
    old = {"spec": {"a": 1, "map": [{"k": "x", "v": 1}, {"k": "y", "v": 1}], "atomic": [1]}}
    new = {"a": 1, "map": [{"k": "y", "v": 2}, {"k": "x", "v": 1}], "atomic": [1, 6]}
    too_small = "in body should be greater than or equal to 5"
    assert said(schema, new, old) == [
        f"spec.map[0].v: Invalid value: 2: spec.map[0].v {too_small}",
        f"spec.atomic[0]: Invalid value: 1: spec.atomic[0] {too_small}",
    ]
    assert said(schema, old["spec"], old) == []


@settings(max_examples=40)
@given(combined(), VALUES)
def test_the_quick_answer_is_never_a_wrong_yes(schema: Object, value: Any) -> None:
    node = read(schema)
    if fast.compiled(node)(value):
        assert not values.problems(value, node, "")
        assert not listtype.problems(value, node)


@settings(max_examples=40)
@given(SCHEMAS, VALUES)
def test_the_quick_answer_misses_little(schema: Object, value: Any) -> None:
    """Whole floats, which are integers, are what it leaves to the slow walk."""
    node = read(schema)
    if not values.problems(value, node, "") and not _has_float(value):
        assert fast.compiled(node)(value)


def _has_float(value: Any) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, float) or any(map(_has_float, inner))


@settings(max_examples=40)
@given(combined(), VALUES)
def test_what_stays_as_it_was_is_always_tolerated(schema: Object, value: Any) -> None:
    assert values.problems(value, read(schema), "", value) == []


@pytest.mark.parametrize(
    ("list_type", "value", "wanted"),
    [
        ("set", [1, 2, 1, 1], ["l[2]: Duplicate value: 1"]),
        ("set", [1, True, "1", 1.5], []),
        ("set", [{"b": 1, "a": 2}, {"a": 2, "b": 1}], ['l[1]: Duplicate value: {"a":2,"b":1}']),
        ("map", [{"k": 1, "v": 1}, {"k": 1, "v": 2}, {"v": 1}], ['l[1]: Duplicate value: {"k":1}']),
        ("map", [{}, None], ["l[1]: Duplicate value: {}"]),
        ("map", [1], ["l[0]: Invalid value: 1: must be an object for an array of list-type map"]),
    ],
)
def test_lists_whose_elements_differ(list_type: str, value: Any, wanted: list[str]) -> None:
    keys = {"x-kubernetes-list-map-keys": ["k"]} if list_type == "map" else {}
    schema = {"properties": {"l": {"type": "array", "x-kubernetes-list-type": list_type, **keys}}}
    assert [str(error) for error in listtype.problems({"l": value}, read(schema))] == wanted


def test_many_wrong_elements_are_not_compared_with_each_other() -> None:
    """A request may have a million of them, and whoever sends it must not stop the server."""
    compared = 0

    class Counting(str):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    result = values.Result()
    for position in range(1000):
        result.add(fieldpath.invalid(f"l[{position}]", Counting("x"), "is wrong"))
        result.add(fieldpath.invalid(f"l[{position}]", Counting("x"), "is wrong"))
    assert len(result.errors) == 1000
    assert compared <= 1000


def test_a_text_is_looked_up_among_its_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not compared with each of them, in each element of a list."""
    monkeypatch.setattr(fast, "is_choice", None)
    fits = fast.compiled(read({"type": "array", "items": {"type": "string", "enum": [f"v{at}" for at in range(1000)]}}))
    assert fits(["v999"] * 1000)
    assert not fits(["v1000"])

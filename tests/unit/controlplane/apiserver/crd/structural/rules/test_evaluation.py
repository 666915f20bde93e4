"""Rules asked of objects: what they say, of what, at which price."""

from typing import Any

import pytest

from controlplane.apiserver.crd.structural import compile_structural, correlation
from controlplane.apiserver.crd.structural.correlation import ABSENT
from controlplane.apiserver.crd.structural.node import read
from controlplane.apiserver.crd.structural.rules import estimate, evaluation, programs

Object = dict[str, Any]
TEXT = {"type": "string"}


def of(schema: Object, *rules: Object) -> Object:
    return {**schema, "x-kubernetes-validations": list(rules)}


def rule(text: str, **more: Any) -> Object:
    return {"rule": text, **more}


def said(schema: Object, value: Any, old: Any = ABSENT, **more: Any) -> list[str]:
    rules = programs.compiled(read({"type": "object", "properties": {"spec": schema}}), resource=True)
    assert rules is not None
    before = ABSENT if old is ABSENT else {"spec": old}
    found = evaluation.evaluate(rules, {"spec": value}, before, **more)
    return [str(error) for error in found.errors] + [f"warning: {text}" for text in found.warnings]


def test_a_rule_that_does_not_hold() -> None:
    schema = of({"type": "object", "properties": {"a": {"type": "integer"}}}, rule("self.a > 1"))
    assert said(schema, {"a": 2}) == []
    assert said(schema, {"a": 1}) == ['spec: Invalid value: "object": failed rule: self.a > 1']
    assert said(schema, {}) == ['spec: Invalid value: "object": no such key: a evaluating rule: self.a > 1']


def test_null_is_asked_nothing() -> None:
    assert said(of({**TEXT, "nullable": True}, rule("false")), None) == []


@pytest.mark.parametrize(
    ("more", "wanted"),
    [
        ({"message": " too small "}, 'spec: Invalid value: "integer": too small'),
        ({"messageExpression": "'got ' + string(self)", "message": "no"}, 'spec: Invalid value: "integer": got 1'),
        ({"messageExpression": "'a\\nb'", "message": "no"}, 'spec: Invalid value: "integer": no'),
        ({"messageExpression": "string(1 / (self - 1))", "message": "no"}, 'spec: Invalid value: "integer": no'),
        ({"reason": "FieldValueForbidden"}, "spec: Forbidden: failed rule: self > 1"),
        ({"reason": "FieldValueRequired"}, "spec: Required value: failed rule: self > 1"),
        ({"reason": "FieldValueDuplicate"}, 'spec: Duplicate value: "integer"'),
        ({"reason": "FieldValueInvalid"}, 'spec: Invalid value: "integer": failed rule: self > 1'),
    ],
)
def test_how_a_rule_words_its_error(more: Object, wanted: str) -> None:
    assert said(of({"type": "integer"}, rule("self > 1", **more)), 1) == [wanted]


def test_the_field_that_a_rule_speaks_of() -> None:
    inner = {"type": "object", "properties": {"a": TEXT, "m": {"type": "object", "additionalProperties": TEXT}}}
    schema = of(inner, rule("false", fieldPath=".a"), rule("false", fieldPath=".m['x.y']"))
    assert [text.partition(": ")[0] for text in said(schema, {})] == ["spec.a", "spec.m[x.y]"]


@pytest.mark.parametrize(
    ("schema", "value", "expression"),
    [
        ({"type": "number"}, 3, "self == 3.0 && type(self) == double"),
        ({"type": "integer"}, 3.0, "self == 3 && type(self) == int"),
        ({**TEXT, "format": "byte"}, "YWJj", "self == b'abc'"),
        ({**TEXT, "format": "duration"}, "1h30m", "self == duration('90m')"),
        ({**TEXT, "format": "date"}, "2024-02-29", "self == timestamp('2024-02-29T00:00:00Z')"),
        ({**TEXT, "format": "date-time"}, "2024-02-29T01:00:00+01:00", "self == timestamp('2024-02-29T00:00:00Z')"),
        ({"x-kubernetes-int-or-string": True}, "5%", "type(self) == string ? self == '5%' : self == 5"),
        (
            {"type": "object", "properties": {"a-b": {"type": "number"}, "in": TEXT, "c__d": TEXT, "e.f/g": TEXT}},
            {"a-b": 1, "in": "x", "c__d": "y", "e.f/g": "z"},
            "self.a__dash__b == 1.0 && self.__in__ == 'x' && self.c__underscores__d == 'y' && self.e__dot__f__slash__g == 'z'",
        ),
        ({"type": "object", "additionalProperties": {"type": "number"}}, {"a-b": 1}, "self['a-b'] == 1.0"),
        ({"type": "array", "items": {"type": "number"}}, [1, 2], "self.all(each, type(each) == double)"),
    ],
)
def test_values_are_of_the_types_of_the_schema(schema: Object, value: Any, expression: str) -> None:
    assert said(of(schema, rule(expression)), value) == []


@pytest.mark.parametrize("time", ["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"])
def test_a_time_outside_of_the_years_that_there_are_is_text(time: str) -> None:
    assert said(of({**TEXT, "format": "date-time"}, rule(f"self == '{time}'")), time) == []


KEYED = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
    "items": of({"type": "object", "properties": {"k": TEXT, "v": {"type": "integer"}}}, rule("self.v >= oldSelf.v")),
}


def test_transitions_follow_keys() -> None:
    old = [{"k": "a", "v": 1}, {"k": "b", "v": 2}]
    assert said(KEYED, [{"k": "b", "v": 1}, {"k": "a", "v": 1}, {"k": "c", "v": 0}], old) == [
        'spec[0]: Invalid value: "object": failed rule: self.v >= oldSelf.v'
    ]
    assert said(KEYED, old) == []


def test_transitions_of_fields_that_are_new_are_not_asked_unless_they_want_to() -> None:
    inner = {"type": "object", "properties": {"a": of({"type": "integer"}, rule("self > oldSelf"))}}
    assert said(inner, {"a": 0}, {}) == []
    assert said(inner, {"a": 0}, {"a": 0}) == ['spec.a: Invalid value: "integer": failed rule: self > oldSelf']
    text = "oldSelf.hasValue() ? self > oldSelf.value() : self > 5"
    optional = {"type": "object", "properties": {"a": of({"type": "integer"}, rule(text, optionalOldSelf=True))}}
    assert said(optional, {"a": 1}, {"a": 0}) == []
    assert said(optional, {"a": 1}, {}) == [f'spec.a: Invalid value: "integer": failed rule: {text}']
    assert said(optional, {"a": 6}) == []


def test_what_stayed_as_it_was_is_a_warning() -> None:
    inner = {"type": "object", "properties": {"a": of({"type": "integer"}, rule("self > 1")), "b": TEXT}}
    assert said(inner, {"a": 0, "b": "x"}, {"a": 0}) == ['warning: spec.a: Invalid value: "integer": failed rule: self > 1']
    assert said(inner, {"a": 1}, {"a": 0}) == ['spec.a: Invalid value: "integer": failed rule: self > 1']
    atomic = {"type": "array", "items": of({"type": "integer"}, rule("self > 1"))}
    assert said(atomic, [0], [0]) == ['warning: spec[0]: Invalid value: "integer": failed rule: self > 1']
    assert said(atomic, [0, 2], [0]) == ['spec[0]: Invalid value: "integer": failed rule: self > 1']


def test_an_object_is_measured_and_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many rules there are, and however many elements they refuse."""
    seen: list[Any] = []
    same, size = correlation.unchanged, estimate.of_value

    def compared(*given: Any) -> bool:
        seen.append("compared")
        return same(*given)

    def measured(value: Any) -> estimate.Size:
        seen.append("measured")
        return size(value)

    monkeypatch.setattr(correlation, "unchanged", compared)
    monkeypatch.setattr(estimate, "of_value", measured)
    items = of({"type": "string"}, rule("self == 'y'"))
    schema = of({"type": "array", "items": items}, *(rule(f"self.all(x, x != 'a{at}')") for at in range(20)))
    assert len(said(schema, ["x"] * 50, ["x"] * 50)) == 50
    assert seen.count("compared") == 1
    assert seen.count("measured") <= 1 + 50  # the list and, by itself, what is in it


def test_wrong_types_that_only_an_evaluation_finds() -> None:
    schema = of({"x-kubernetes-int-or-string": True}, rule("self > 1"))
    assert said(schema, "a") == [
        "spec: Invalid value: \"\": 'no such overload': call arguments did not match a supported operator, "
        "function or macro signature for rule: self > 1"
    ]


def test_the_budget_of_an_object_runs_out() -> None:
    element = of({"type": "object", "properties": {"a": {"type": "integer"}}}, rule("self.a < 0", message="no"))
    schema = {"type": "array", "items": element}
    assert said(schema, [{"a": 1}] * 3, budget=6) == [
        'spec[0]: Invalid value: "object": no',
        'spec[1]: Invalid value: "object": no',
        'spec[2]: Invalid value: "object": '
        "validation failed due to running out of cost budget, no further validation rules will be run",
    ]


def test_a_rule_that_costs_too_much_ends_it_all() -> None:
    text = "self.all(x, self.all(y, x == y || x != y))"
    schema = of({"type": "array", "items": TEXT}, rule(text), rule("false"))
    assert said(schema, ["a"] * 10)[0].endswith("failed rule: false")
    assert said(schema, ["a"] * 1000) == [
        "spec: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': "
        f"no further validation rules will be run due to call cost exceeds limit for rule: {text}"
    ]


def test_rules_see_a_resources_name_and_wait_for_the_right_form() -> None:
    schema = compile_structural(
        of(
            {"type": "object", "properties": {"spec": {"type": "object", "required": ["a"]}}},
            rule("self.metadata.name.startsWith('a')"),
        )
    )
    obj = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "b"}, "spec": {"a": 1}}
    assert [str(error) for error in schema.rules(obj).errors] == [
        "<nil>: Invalid value: \"object\": failed rule: self.metadata.name.startsWith('a')"
    ]
    wrong = {**obj, "spec": {}}
    assert [str(error) for error in schema.rules(wrong, None, schema.validate(wrong)).errors] == [
        '<nil>: Invalid value: "null": some validation rules were not checked because the object was invalid; '
        "correct the existing errors to complete validation"
    ]
    assert compile_structural({"type": "object"}).rules(obj) == evaluation.Findings()

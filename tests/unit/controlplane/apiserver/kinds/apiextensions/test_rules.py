"""Rules of definitions that are refused, in upstream's words."""

from typing import Any

import pytest

from controlplane.apiserver.kinds.apiextensions.customresourcedefinition import validation
from tests.unit.controlplane.apiserver.kinds.apiextensions.definitions import Object, properties, said_of_schema

TEXT = {"type": "string", "maxLength": 10}


def said(schema: Object, *rules: Object) -> list[str]:
    prefix = "properties[x].x-kubernetes-validations"
    return [text.removeprefix(prefix) for text in said_of_schema(x={**schema, "x-kubernetes-validations": list(rules)})]


def shown(rule: str, **more: Any) -> str:
    fields = {"Message": "", "MessageExpression": "", "Reason": None, "FieldPath": "", "OptionalOldSelf": None} | more
    rest = ",".join(f'"{name}":{"null" if value is None else f"{chr(34)}{value}{chr(34)}"}' for name, value in fields.items())
    return f'{{"Rule":"{rule}",{rest}}}'


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ({"rule": "self == 'a'"}, []),
        ({"rule": " "}, ["[0].rule: Required value: rule is not specified"]),
        ({"rule": "true", "message": " "}, ['[0].message: Invalid value: " ": must be non-empty if specified']),
        ({"rule": "true", "message": "a\nb"}, ['[0].message: Invalid value: "a\\nb": must not contain line breaks']),
        ({"rule": "true\n&& true"}, ["[0].message: Required value: message must be specified if rule contains line breaks"]),
        (
            {"rule": "true", "messageExpression": " "},
            ["[0].messageExpression: Required value: messageExpression must be non-empty if specified"],
        ),
        (
            {"rule": "true", "reason": "Because"},
            [
                '[0].reason: Unsupported value: "Because": supported values: '
                '"FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"'
            ],
        ),
        ({"rule": "true", "fieldPath": ".a"}, ['[0].fieldPath: Invalid value: ".a": must be a valid path']),
        (
            {"rule": "self > 1"},
            [
                f"[0].rule: Invalid value: {shown('self > 1')}: compilation failed: ERROR: <input>:1:6: "
                "found no matching overload for '_>_' applied to '(string, int)'\n | self > 1\n | .....^"
            ],
        ),
        ({"rule": "self"}, [f"[0].rule: Invalid value: {shown('self')}: cel expression must evaluate to a bool"]),
        (
            {"rule": "true", "messageExpression": "1"},
            [
                f"[0].messageExpression: Invalid value: {shown('true', MessageExpression='1')}: "
                "messageExpression must evaluate to a string"
            ],
        ),
        (
            {"rule": "true", "optionalOldSelf": True},
            ["[0].optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule"],
        ),
        ({"rule": "!oldSelf.hasValue() || self == oldSelf.value()", "optionalOldSelf": True}, []),
        ({"rule": "self == oldSelf"}, []),
    ],
)
def test_one_rule(rule: Object, wanted: list[str]) -> None:
    assert said(TEXT, rule) == wanted


def test_fields_are_those_of_the_schema() -> None:
    schema = {"type": "object", "properties": {"a-b": {"type": "integer"}, "o": {"type": "object", "properties": {"t": TEXT}}}}
    assert said(schema, {"rule": "self.a__dash__b > 1 && self.o.t == 'a' && has(self.o)"}) == []
    (text,) = said(schema, {"rule": "self.o.u == 'a'"})
    assert text.endswith("ERROR: <input>:1:7: undefined field 'u'\n | self.o.u == 'a'\n | ......^")
    (text,) = said({"type": "object", "x-kubernetes-preserve-unknown-fields": True}, {"rule": "self.a == 1"})
    assert "undefined field 'a'" in text


def test_what_has_no_type_has_no_rules() -> None:
    assert said({"x-kubernetes-preserve-unknown-fields": True}, {"rule": "true"}) == [
        ": Internal error: failed to convert to declType for CEL validation rules"
    ]


def test_transitions_need_elements_that_are_found_again() -> None:
    element = {**TEXT, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}
    (text,) = said_of_schema(x={"type": "array", "maxItems": 5, "items": element})
    assert text == (
        'properties[x].items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": '
        "oldSelf cannot be used on the uncorrelatable portion of the schema within "
        "spec.validation.openAPIV3Schema.properties[x]"
    )


def test_rules_that_could_cost_too_much() -> None:
    lists = {"type": "array", "items": {"type": "string"}}
    one, *_, all_of_them = said(lists, {"rule": "self.all(x, x.contains('a'))"})
    advice = (
        "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength "
        "where arrays, maps, and strings are declared)"
    )
    assert one == f"[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more than 100x {advice}"
    assert all_of_them.endswith(f"for entire OpenAPIv3 schema exceeds budget by factor of more than 100x {advice}")
    bounded = {"type": "array", "maxItems": 10, "items": TEXT}
    assert said(bounded, {"rule": "self.all(x, x.contains('a'))"}) == []
    expensive = {"type": "array", "maxItems": 1000, "items": {**TEXT, "maxLength": 100}}
    assert said(expensive, {"rule": "self.all(x, self.exists_one(y, x == y))"})[0].startswith("[0].rule: Forbidden")


def test_all_rules_of_a_schema_together_could_cost_too_much() -> None:
    schema = {"type": "array", "maxItems": 1000, "items": {"type": "integer"}}
    rules = [{"rule": f"self.all(x, self.exists(y, x + {number} == y))"} for number in range(15)]
    found = said_of_schema(x={**schema, "x-kubernetes-validations": rules})
    assert found[-1].startswith(
        "spec.validation.openAPIV3Schema: Forbidden: x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 "
        "schema exceeds budget by factor of 1."
    )
    assert sum("contributed to estimated rule cost total" in text for text in found) == 4


def test_rules_of_a_schema_that_is_not_touched_may_cost_what_they_did() -> None:
    lists = {"type": "array", "items": {"type": "string"}, "x-kubernetes-validations": [{"rule": "self.all(x, x.contains('a'))"}]}
    old = properties(x=lists)
    assert [error.kind for error in validation.problems(old)] == ["FieldValueForbidden"] * 3
    new = properties(x=lists)
    assert not any("estimated rule cost exceeds" in error.detail for error in validation.update_problems(new, old))


def test_defaults_have_to_fulfil_the_rules() -> None:
    schema = {"type": "integer", "default": 1, "x-kubernetes-validations": [{"rule": "self > 1"}]}
    assert said_of_schema(x=schema) == ['properties[x].default: Invalid value: "integer": failed rule: self > 1']

"""Schemas that are refused, in upstream's words."""

from typing import Any

import pytest

from tests.unit.controlplane.apiserver.kinds.apiextensions.definitions import (
    Object,
    definition,
    said,
    said_of_schema,
    version,
)

TEXT = {"type": "string"}
NOT_SELECTABLE = (
    "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."
)


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        pytest.param({}, ["type: Required value: must not be empty for specified object fields"], id="no type"),
        pytest.param({"type": "array"}, ["items: Required value: must be specified"], id="no items"),
        pytest.param(
            {"type": "array", "items": {}},
            ["items.type: Required value: must not be empty for specified array items"],
            id="no type of items",
        ),
        pytest.param(
            {"type": "null"},
            [
                'type: Unsupported value: "null": supported values: "array", "boolean", "integer", "number", "object", "string"',
                "type: Forbidden: type cannot be set to null, use nullable as an alternative",
            ],
            id="null",
        ),
        pytest.param({**TEXT, "$ref": "#/a"}, ["$ref: Forbidden: $ref is not supported"], id="ref"),
        pytest.param(
            {"type": "array", "items": TEXT, "uniqueItems": True},
            ["uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic"],
            id="unique items",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": TEXT}, "additionalProperties": TEXT},
            ["additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
            id="properties and others",
        ),
        pytest.param(
            {**TEXT, "allOf": [{"type": "string", "description": "a", "default": "b"}]},
            [
                "allOf[0].default: Forbidden: must be undefined to be structural",
                "allOf[0].description: Forbidden: must be empty to be structural",
                "allOf[0].type: Forbidden: must be empty to be structural",
            ],
            id="not structural",
        ),
        pytest.param(
            {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}, [], id="int or string"
        ),
        pytest.param(
            {"x-kubernetes-int-or-string": True, "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}]},
            [],
            id="int or string in allOf",
        ),
        pytest.param(
            {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "string"}, {"type": "integer"}]},
            [
                "anyOf[0].type: Forbidden: must be empty to be structural",
                "anyOf[1].type: Forbidden: must be empty to be structural",
            ],
            id="string or int",
        ),
        pytest.param(
            {"type": "object", "x-kubernetes-embedded-resource": True},
            [
                "properties: Required value: must not be empty if x-kubernetes-embedded-resource is true "
                "without x-kubernetes-preserve-unknown-fields"
            ],
            id="embedded",
        ),
        pytest.param(
            {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
            ["x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined"],
            id="preserve false",
        ),
        pytest.param(
            {**TEXT, "x-kubernetes-list-type": "set"},
            ['type: Invalid value: "string": must be array if x-kubernetes-list-type is specified'],
            id="list type of text",
        ),
        pytest.param(
            {"type": "array", "items": {"type": "object"}, "x-kubernetes-list-type": "set"},
            [
                'items.x-kubernetes-map-type: Invalid value: "null": '
                "must be atomic as item of a list with x-kubernetes-list-type=set"
            ],
            id="set of maps",
        ),
        pytest.param(
            {"type": "array", "items": TEXT, "x-kubernetes-list-type": "map"},
            [
                "x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
                'items.type: Invalid value: "string": must be object if parent array\'s x-kubernetes-list-type is map',
            ],
            id="map of text",
        ),
        pytest.param(
            {
                "type": "array",
                "items": {"type": "object", "properties": {"k": {**TEXT, "nullable": True}}},
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k", "l"],
            },
            [
                'x-kubernetes-list-map-keys: Invalid value: ["k","l"]: entries must all be names of item properties',
                "items.properties[k].default: Required value: "
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
                "items.properties[k].nullable: Forbidden: "
                "this property is in x-kubernetes-list-map-keys, so it cannot be nullable",
            ],
            id="keys",
        ),
        pytest.param(
            {"type": "object", "x-kubernetes-map-type": "big"},
            ['x-kubernetes-map-type: Unsupported value: "big": supported values: "atomic", "granular"'],
            id="map type",
        ),
        pytest.param(
            {**TEXT, "pattern": "("},
            ['pattern: Invalid value: "(": must be a valid regular expression, but isn\'t: error parsing regexp: missing ): ('],
            id="pattern",
        ),
        pytest.param(
            {"type": "integer", "default": "a"},
            ['default: Invalid value: "string":  in body must be of type integer: "string"'],
            id="default of another type",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": {"type": "integer"}}, "default": {"a": "b", "c": 1}},
            [
                'default: Invalid value: {"a":"b","c":1}: must not have unknown fields',
                'default.a: Invalid value: "string": a in body must be of type integer: "string"',
            ],
            id="default with unknown fields",
        ),
    ],
)
def test_what_is_refused(schema: Object, wanted: list[str]) -> None:
    assert [text.removeprefix("properties[x].") for text in said_of_schema(x=schema)] == wanted


@pytest.mark.parametrize(
    ("root", "wanted"),
    [
        ({"type": "array", "items": TEXT}, ['type: Invalid value: "array": must be object at the root']),
        ({"type": "object", "nullable": True}, ["nullable: Forbidden: nullable cannot be true at the root"]),
        (
            {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}},
            [
                "properties[metadata]: Forbidden: must not specify anything other than name and generateName, "
                "but metadata is implicitly specified"
            ],
        ),
        ({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": TEXT}}}}, []),
        (
            {"type": "object", "properties": {"kind": {"type": "string", "default": "A"}}},
            ["properties[kind].default: Forbidden: must not be set in top-level kind"],
        ),
        (
            {"type": "object", "not": {"required": ["a"], "properties": {"a": {"pattern": "b"}}}},
            ["properties[a]: Required value: because it is defined in spec.validation.openAPIV3Schema.not.properties[a]"],
        ),
        ({"type": "object", "additionalProperties": TEXT}, ["additionalProperties: Forbidden: must not be used at the root"]),
    ],
)
def test_roots(root: Object, wanted: list[str]) -> None:
    prefix = "spec.validation.openAPIV3Schema."
    assert [text.removeprefix(prefix) for text in said(definition(version(schema=root)))] == wanted


def test_with_a_status_the_root_is_simple() -> None:
    root = {"type": "object", "properties": {"a": TEXT}, "anyOf": [{"required": ["a"]}]}
    (text,) = said(definition(version(schema=root, subresources={"status": {}})))
    assert text.startswith(
        'spec.validation.openAPIV3Schema: Invalid value: {"ID":"","Schema":"","Ref":null,"Description":"","Type":"object"'
    )
    assert text.endswith(
        "only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern "
        "MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields "
        "XValidations] fields are allowed at the root of the schema if the status subresource is enabled"
    )


def test_defaults_of_embedded_metadata() -> None:
    pod = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object", "default": {"a": 1}}}}},
    }
    (text,) = said_of_schema(pod=pod)
    assert text.startswith(
        'properties[pod].properties[metadata].properties[labels].default: Invalid value: {"a":1}: must result in valid metadata: '
    )


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        (".spec.a", []),
        (".metadata.name", ["must not point to fields in metadata"]),
        (
            ".spec",
            [NOT_SELECTABLE],
        ),
        (".spec.b", ["is an invalid path: does not refer to a valid field"]),
        (".spec['a']", ["is an invalid path: array notation is not allowed"]),
        ("spec", ["is an invalid path: expected [ or . but got: spec"]),
    ],
)
def test_selectable_fields(path: str, wanted: list[str]) -> None:
    metadata = {"type": "object", "properties": {"name": TEXT}}
    root = {"type": "object", "properties": {"metadata": metadata, "spec": {"type": "object", "properties": {"a": TEXT}}}}
    fields: list[dict[str, Any]] = [{"jsonPath": path}]
    found = said(definition(version(schema=root, selectableFields=fields)))
    assert found == [f'spec.selectableFields[0].jsonPath: Invalid value: "{path}": {text}' for text in wanted]


def test_no_more_than_eight_fields_are_selectable() -> None:
    inner = {f"f{number}": TEXT for number in range(9)}
    root = {"type": "object", "properties": {"spec": {"type": "object", "properties": inner}}}
    fields = [{"jsonPath": f".spec.{name}"} for name in inner]
    assert said(definition(version(schema=root, selectableFields=fields))) == [
        "spec.selectableFields: Too many: 9: must have at most 8 items"
    ]
    assert said(definition(version(schema=root, selectableFields=[*fields[:1], *fields[:1]]))) == [
        'spec.selectableFields[1].jsonPath: Duplicate value: ".spec.f0"'
    ]

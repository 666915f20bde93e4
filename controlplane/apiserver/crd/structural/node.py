"""A structural schema as a tree: what ``openAPIV3Schema`` of a CustomResourceDefinition says, read once.

Made by :func:`read` from the JSON of a schema (``apiextensions.k8s.io/v1`` JSONSchemaProps); the modules beside this one ask it
what to prune, to default and to refuse. What stands under ``allOf``, ``anyOf``, ``oneOf`` and ``not`` are nodes too, which
may say nothing of types and defaults (``structuralness``).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
Rule = Mapping[str, Any]
"""An entry of ``x-kubernetes-validations``."""

META_FIELDS = frozenset({"apiVersion", "kind", "metadata"})
_UNSUPPORTED = (
    ("id", "id"),
    ("$schema", "schema"),
    ("$ref", "$ref"),
    ("patternProperties", "patternProperties"),
    ("dependencies", "dependencies"),
    ("additionalItems", "additionalItems"),
    ("definitions", "definitions"),
)


class UnsupportedSchemaError(ValueError):
    """The schema uses what no structural schema can have; the text is upstream's."""


@dataclass(slots=True, eq=False)
class Node:
    """The schema of one value. An empty text, None or an empty collection says that the schema is silent."""

    type: str = ""
    title: str = ""
    description: str = ""
    nullable: bool = False
    default: Any = None
    external_docs: bool = False
    properties: "dict[str, Node]" = field(default_factory=dict)
    items: "Node | None" = None
    additional: "Node | None" = None
    additional_allowed: bool | None = None  # ``additionalProperties``: None where it is not set, True beside a schema
    preserve: bool = False  # x-kubernetes-preserve-unknown-fields
    embedded: bool = False  # x-kubernetes-embedded-resource
    int_or_string: bool = False
    list_type: str = ""
    list_map_keys: tuple[str, ...] = ()
    map_type: str = ""
    rules: tuple[Rule, ...] = ()
    format: str = ""
    maximum: float | None = None
    exclusive_maximum: bool = False
    minimum: float | None = None
    exclusive_minimum: bool = False
    max_length: int | None = None
    min_length: int | None = None
    pattern: str = ""
    max_items: int | None = None
    min_items: int | None = None
    unique_items: bool = False
    multiple_of: float | None = None
    max_properties: int | None = None
    min_properties: int | None = None
    required: tuple[str, ...] = ()
    enum: tuple[Any, ...] = ()
    all_of: "tuple[Node, ...]" = ()
    any_of: "tuple[Node, ...]" = ()
    one_of: "tuple[Node, ...]" = ()
    not_: "Node | None" = None
    source: Object = field(default_factory=dict, repr=False)  # the JSON it was read from
    quick: Callable[[Any], bool] | None = field(default=None, init=False, repr=False)  # what ``fast`` has made of it
    _embeds: bool | None = field(default=None, init=False, repr=False)

    @property
    def types(self) -> tuple[str, ...]:
        """The JSON types that a value may have; empty where any will do."""
        if self.int_or_string:
            return ("integer", "string")
        return (self.type,) if self.type else ()

    def child(self, key: str) -> "Node | None":
        """The schema of the field ``key``."""
        return self.properties.get(key) or self.additional

    @property
    def embeds(self) -> bool:
        """Whether a resource is embedded anywhere below. Asked for each part of an object, and found out once."""
        if self._embeds is None:
            self._embeds = any(inner.embedded or inner.embeds for inner in self.below())
        return self._embeds

    def nested(self) -> "Iterator[Node]":
        """The schemas that the same value has to fulfil, or not."""
        yield from self.all_of
        yield from self.any_of
        yield from self.one_of
        if self.not_ is not None:
            yield self.not_

    def below(self) -> "Iterator[Node]":
        """The schemas of the parts of a value."""
        yield from self.properties.values()
        if self.items is not None:
            yield self.items
        if self.additional is not None:
            yield self.additional


def read(schema: Object) -> Node:
    """Raises UnsupportedSchemaError."""
    for key, name in _UNSUPPORTED:
        if key in schema and (schema[key] or key == "additionalItems"):
            raise UnsupportedSchemaError(f"OpenAPIV3Schema '{name}' is not supported")
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        raise UnsupportedSchemaError("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined")
    items, more = schema.get("items"), schema.get("additionalProperties")
    if isinstance(items, list):
        raise UnsupportedSchemaError("OpenAPIV3Schema 'items' must be a schema, but is an array")
    return Node(
        type=schema.get("type") or "",
        title=schema.get("title") or "",
        description=schema.get("description") or "",
        nullable=bool(schema.get("nullable")),
        default=schema.get("default"),
        external_docs=schema.get("externalDocs") is not None,
        properties={name: read(inner) for name, inner in (schema.get("properties") or {}).items()},
        items=read(items) if isinstance(items, dict) else None,
        additional=read(more) if isinstance(more, dict) else None,
        additional_allowed=None if more is None else bool(more is not False),
        preserve=bool(schema.get("x-kubernetes-preserve-unknown-fields")),
        embedded=bool(schema.get("x-kubernetes-embedded-resource")),
        int_or_string=bool(schema.get("x-kubernetes-int-or-string")),
        list_type=schema.get("x-kubernetes-list-type") or "",
        list_map_keys=tuple(schema.get("x-kubernetes-list-map-keys") or ()),
        map_type=schema.get("x-kubernetes-map-type") or "",
        rules=tuple(schema.get("x-kubernetes-validations") or ()),
        format=schema.get("format") or "",
        maximum=schema.get("maximum"),
        exclusive_maximum=bool(schema.get("exclusiveMaximum")),
        minimum=schema.get("minimum"),
        exclusive_minimum=bool(schema.get("exclusiveMinimum")),
        max_length=schema.get("maxLength"),
        min_length=schema.get("minLength"),
        pattern=schema.get("pattern") or "",
        max_items=schema.get("maxItems"),
        min_items=schema.get("minItems"),
        unique_items=bool(schema.get("uniqueItems")),
        multiple_of=schema.get("multipleOf"),
        max_properties=schema.get("maxProperties"),
        min_properties=schema.get("minProperties"),
        required=tuple(schema.get("required") or ()),
        enum=tuple(schema.get("enum") or ()),
        all_of=tuple(map(read, schema.get("allOf") or ())),
        any_of=tuple(map(read, schema.get("anyOf") or ())),
        one_of=tuple(map(read, schema.get("oneOf") or ())),
        not_=read(schema["not"]) if schema.get("not") is not None else None,
        source=schema,
    )

"""How server-side apply sees a schema: which values are one thing, and which have parts with owners of their own.

Made once per struct and kept with it. Used by ``compare`` and ``typed``.
"""

from enum import IntEnum
from typing import Any, NamedTuple

import orjson

from apimachinery.schema.types import Field, ListSchema, MapSchema, ScalarSchema, Schema, StructSchema


class Shape(IntEnum):
    LEAF = 0  # scalars and whatever is atomic
    STRUCT = 1
    MAP = 2
    KEYED = 3  # a list whose elements have keys
    SET = 4  # a list of distinct scalars


class Part(NamedTuple):
    """A place in an object: its step in a field set, its shape, its schema.

    ``implicit``: upstream's Go struct holds it by value, so it exists (empty) wherever its parent does.
    """

    step: str
    shape: Shape
    schema: Schema
    implicit: bool = False


# Optional structs that upstream holds by value. The schema cannot tell them from pointers; required ones are always values.
_BY_VALUE = frozenset(
    {
        "metadata",
        "spec",
        "status",
        "template",
        "strategy",
        "updateStrategy",
        "resources",
        "state",
        "lastState",
        "nodeInfo",
        "daemonEndpoints",
        "kubeletEndpoint",
        "loadBalancer",
        "source",
        "regarding",
        "involvedObject",
        "deprecatedSource",
    }
)


def parts(struct: StructSchema) -> dict[str, Part]:
    """The fields of a struct."""
    found: dict[str, Part] | None = struct.cache.get("apply")
    if found is None:
        found = struct.cache["apply"] = {name: _part(field, custom=not struct.name) for name, field in struct.fields.items()}
    return found


def _part(field: Field, *, custom: bool) -> Part:
    """``custom``: of a custom resource, which is no Go struct that could hold anything by value but its metadata."""
    shape = shape_of(field.schema)
    if field.atomic is not None and shape is not Shape.KEYED and shape is not Shape.SET:
        granular = Shape.MAP if isinstance(field.schema, MapSchema) else Shape.STRUCT
        shape = Shape.LEAF if field.atomic else granular
    by_value = isinstance(field.schema, StructSchema) and (field.required or field.name in _BY_VALUE)
    implicit = shape is not Shape.LEAF and (by_value or (field.required and not isinstance(field.schema, StructSchema)))
    return Part(f"f:{field.name}", shape, field.schema, implicit and (not custom or field.name == "metadata"))


def shape_of(schema: Schema) -> Shape:
    if isinstance(schema, ScalarSchema):
        return Shape.LEAF
    if isinstance(schema, StructSchema):
        return Shape.LEAF if schema.atomic else Shape.STRUCT
    if isinstance(schema, MapSchema):
        return Shape.LEAF if schema.atomic else Shape.MAP
    return {"map": Shape.KEYED, "set": Shape.SET}.get(schema.list_type, Shape.LEAF)


def element_part(schema: ListSchema, item: Any) -> Part:
    """A list element, by its keys."""
    return Part(element_step(schema, item), shape_of(schema.element), schema.element)


def element_step(schema: ListSchema, item: Any) -> str:
    """``k:{"containerPort":80,"protocol":"TCP"}`` or ``v:"a"``; absent keys take their default, keys without one are left out."""
    if schema.list_type != "map":
        return f"v:{orjson.dumps(item).decode()}"
    if not isinstance(item, dict):
        return f"v:{orjson.dumps(item).decode()}"
    if len(schema.keys) == 1:
        name = schema.keys[0]
        value = item.get(name)
        if type(value) is str and value.isascii() and value.isprintable() and '"' not in value and "\\" not in value:
            return f'k:{{"{name}":"{value}"}}'
    values = {}
    for name in sorted(schema.keys):
        value = item.get(name)
        if value is None:
            value = _default(schema.element, name)
        if value is not None:
            values[name] = value
    return f"k:{orjson.dumps(values).decode()}"


def _default(element: Schema, name: str) -> Any:
    field = element.fields.get(name) if isinstance(element, StructSchema) else None
    return field.default if field else None


def key_step(name: str) -> str:
    return f"f:{name}"

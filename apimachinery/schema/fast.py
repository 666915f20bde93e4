"""The quick yes: does an object fit its schema exactly, with nothing to report and nothing to normalise?

``check`` asks here first. Checkers are closures over flat tables, built once per struct; a typical pod costs about 10 us.
A no says nothing about why: ``check`` then walks again, slowly, and finds the words. So a checker may refuse too much (null,
an empty list, a time with an offset are all "no", since they need normalising), and never too little.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from apimachinery.schema import scalars
from apimachinery.schema.types import Field, ListSchema, MapSchema, ScalarSchema, Schema, StructSchema

Checker = Callable[[Any], bool]


def checker(struct: StructSchema) -> Checker:
    """The compiled checker of a struct, kept with it."""
    found: Checker | None = struct.cache.get("fast")
    if found is None:
        found = struct.cache["fast"] = _struct(struct)
    return found


def _struct(struct: StructSchema) -> Checker:
    table: dict[str, Any] = {}
    kept: set[str] = set()

    def fill() -> dict[str, Any]:
        """At first use: schemas refer to themselves, and most are never used."""
        table.update((name, _expected(field.schema)) for name, field in struct.fields.items())
        kept.update(name for name, field in struct.fields.items() if not omitted_when_empty(field))
        table.setdefault("", None)  # a struct without fields is built, too
        return table

    def check(value: Any) -> bool:
        if type(value) is not dict:
            return False
        get = (table or fill()).get
        for key, item in value.items():
            expected = get(key)
            if expected is not type(item) and (expected is None or type(expected) is type or not expected(item)):
                return False
            if not item and key not in kept:
                return False
        return True

    return check


def omitted_when_empty(field: Field) -> bool:
    """Whether a zero or empty value of the field is none. Go never omits what its structs hold, nor does JSON in JSON go."""
    if isinstance(field.schema, ScalarSchema):
        return field.omits_empty and field.schema.kind in _OMITTED
    return field.omits_empty and isinstance(field.schema, ListSchema | MapSchema)


def _expected(schema: Schema) -> Any:
    """A Python type to compare with, or a checker to call."""
    if isinstance(schema, ScalarSchema):
        return _PLAIN.get(schema.kind) or _SCALARS[schema.kind]
    return _checker(schema)


def _checker(schema: Schema) -> Checker:
    if isinstance(schema, StructSchema):
        return checker(schema)
    if isinstance(schema, ScalarSchema):
        expected = _expected(schema)
        return (lambda value: type(value) is expected) if type(expected) is type else expected
    inner = _expected(schema.element if isinstance(schema, ListSchema) else schema.value)
    if isinstance(schema, ListSchema):
        if type(inner) is type:
            return lambda value: type(value) is list and all(type(item) is inner for item in value)
        return lambda value: type(value) is list and all(map(inner, value))
    if type(inner) is type:
        return lambda value: type(value) is dict and all(type(item) is inner for item in value.values())
    return lambda value: type(value) is dict and all(map(inner, value.values()))


def _int_between(low: int, high: int) -> Checker:
    return lambda value: type(value) is int and low <= value <= high


@lru_cache(maxsize=4096)
def _is_canonical(text: str) -> bool:
    try:
        return scalars.canonical_quantity(text) == text
    except ValueError:
        return False


_OMITTED = frozenset({"string", "int32", "int64", "double", "boolean", "bytes"})

# Kinds that need no more than a look at the type of the value.
_PLAIN: dict[str, type] = {"string": str, "boolean": bool, "object": dict}
_INT32 = _int_between(*scalars.INT32)
_SCALARS: dict[str, Checker] = {
    "int32": _INT32,
    "int64": _int_between(*scalars.INT64),
    "double": lambda value: type(value) is float or type(value) is int,
    "bytes": lambda value: type(value) is str and scalars.is_base64(value),
    "time": lambda value: type(value) is str and scalars.is_canonical_time(value, 20),
    "microtime": lambda value: type(value) is str and scalars.is_canonical_time(value, 27),
    "quantity": lambda value: type(value) is str and _is_canonical(value),
    "intstr": lambda value: type(value) is str or _INT32(value),
    "any": lambda value: value is not None,
}

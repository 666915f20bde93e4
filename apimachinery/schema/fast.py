"""The quick yes: does an object fit its schema exactly, with nothing to report and nothing to normalise?

``check`` asks here first. Checkers are closures over flat tables, built once per struct; a typical pod costs about 10 us.
A no says nothing about why: ``check`` then walks again, slowly, and finds the words. So a checker may refuse too much (null,
an empty list, a time with an offset are all "no", since they need normalising), and never too little.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from apimachinery.schema.scalars import canonical_quantity, is_base64
from apimachinery.schema.types import Field, ListSchema, MapSchema, ScalarSchema, Schema, StructSchema

Checker = Callable[[Any], bool]
INT32 = (-(2**31), 2**31 - 1)
INT64 = (-(2**63), 2**63 - 1)

_TIME = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\dZ").fullmatch
_MICRO_TIME = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{6}Z").fullmatch


def checker(struct: StructSchema) -> Checker:
    """The compiled checker of a struct, kept with it."""
    found: Checker | None = struct.cache.get("fast")
    if found is None:
        found = struct.cache["fast"] = _struct(struct)
    return found


def _struct(struct: StructSchema) -> Checker:
    table: dict[str, Any] = {}

    def first(value: Any) -> bool:
        """Builds the table, then steps aside: recursion and unused kinds stay unbuilt until now."""
        if not table:
            table.update((name, _field(field)) for name, field in struct.fields.items())
        struct.cache["fast"] = check
        return check(value)

    def check(value: Any) -> bool:
        if type(value) is not dict:
            return False
        get = table.get if table else _fill(table, struct).get
        for key, item in value.items():
            expected = get(key)
            if expected is type(item):
                continue
            if expected is None or type(expected) is type or not expected(item):
                return False
        return True

    return first


def _fill(table: dict[str, Any], struct: StructSchema) -> dict[str, Any]:
    table.update((name, _field(field)) for name, field in struct.fields.items())
    table.setdefault("", None)  # never empty again, for structs without fields too
    return table


def _field(field: Field) -> Any:
    """A Python type to compare with, or a checker to call."""
    if not field.required and isinstance(field.schema, ListSchema | MapSchema):
        inner = _checker(field.schema)
        return lambda value: bool(value) and inner(value)
    return _expected(field.schema)


def _expected(schema: Schema) -> Any:
    return _PLAIN.get(schema.kind) or _SCALARS[schema.kind] if isinstance(schema, ScalarSchema) else _checker(schema)


def _checker(schema: Schema) -> Checker:
    if isinstance(schema, StructSchema):
        return _lazy(schema)
    if isinstance(schema, ScalarSchema):
        expected = _expected(schema)
        return (lambda value: type(value) is expected) if type(expected) is type else expected
    inner = schema.element if isinstance(schema, ListSchema) else schema.value
    plain = _PLAIN.get(inner.kind) if isinstance(inner, ScalarSchema) else None
    container, values = (list, iter) if isinstance(schema, ListSchema) else (dict, dict.values)
    if plain is not None:
        return lambda value: type(value) is container and all(type(item) is plain for item in values(value))
    check = _checker(inner)
    return lambda value: type(value) is container and all(map(check, values(value)))


def _lazy(struct: StructSchema) -> Checker:
    return _struct(struct) if "fast" not in struct.cache else struct.cache["fast"]


def _int_between(low: int, high: int) -> Checker:
    return lambda value: type(value) is int and low <= value <= high


def _int_or_string(value: Any) -> bool:
    return type(value) is str or (type(value) is int and INT32[0] <= value <= INT32[1])


def _quantity(value: Any) -> bool:
    return type(value) is str and _is_canonical(value)


@lru_cache(maxsize=4096)
def _is_canonical(text: str) -> bool:
    return canonical_quantity(text) == text


# Types that need no more than a look at the type of the value.
_PLAIN: dict[str, type] = {"string": str, "boolean": bool, "object": dict}
_SCALARS: dict[str, Checker] = {
    "int32": _int_between(*INT32),
    "int64": _int_between(*INT64),
    "double": lambda value: type(value) is float or type(value) is int,
    "bytes": lambda value: type(value) is str and is_base64(value),
    "time": lambda value: type(value) is str and _TIME(value) is not None,
    "microtime": lambda value: type(value) is str and _MICRO_TIME(value) is not None,
    "quantity": _quantity,
    "intstr": _int_or_string,
    "any": lambda value: value is not None,
}

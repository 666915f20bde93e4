"""What the value of a mutation makes of an object: a configuration merged into it, or a JSON patch applied. Pure.

Upstream: ``plugin/policy/mutating/patch``, whose texts these are. Called by ``mutator``.
"""

import base64
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from apimachinery import errors
from apimachinery.cel.values import name_of
from apimachinery.errors import StatusError
from apimachinery.patch import json_patch, typed
from apimachinery.patch.layout import Shape, parts, shape_of
from apimachinery.schema import check
from apimachinery.schema.types import ListSchema, MapSchema, ScalarSchema, Schema, StructSchema
from apimachinery.times import format_time

Object = dict[str, Any]
_NOT_JSON = "JSONPath valueExpression evaluated to a type that could not marshal to JSON"


class ChangeError(Exception):
    """The value cannot be applied; the text says why."""


def configured(obj: Object, value: Any, schema: StructSchema) -> Object:
    """``obj`` with what the configuration ``value`` says, merged as server-side apply does. Raises ChangeError."""
    stated = {**json_of(value), "apiVersion": obj.get("apiVersion"), "kind": obj.get("kind")}
    if problems := typed.problems(stated, schema):
        text = problems[0] if len(problems) == 1 else "errors:\n" + "\n".join(f"  {each}" for each in problems)
        raise ChangeError(f"error applying patch: failed to convert patch object to typed object: {text}")
    if whole := list(_atomics(stated, schema, Shape.STRUCT, "")):
        text = f"may not mutate atomic arrays, maps or structs: {', '.join(whole)}"
        raise ChangeError(f"error applying patch: invalid ApplyConfiguration: {text}")
    return typed.merge(obj, stated, schema)


def _atomics(value: Any, schema: Schema, shape: Shape, path: str) -> Iterator[str]:
    """What would be replaced as a whole: whoever states a part of it would take the rest away without knowing."""
    if isinstance(value, dict | list) and shape is Shape.LEAF:
        yield path
    if isinstance(value, dict) and isinstance(schema, StructSchema):
        fields = parts(schema)
        for name, inner in value.items():
            if (part := fields.get(name)) is not None:
                yield from _atomics(inner, part.schema, part.shape, f"{path}.{name}")
    elif isinstance(value, list) and isinstance(schema, ListSchema) and not isinstance(schema.element, MapSchema | ScalarSchema):
        for position, inner in enumerate(value):
            yield from _atomics(inner, schema.element, shape_of(schema.element), f"{path}[{position}]")


def patched(obj: Object, value: Any, schema: StructSchema) -> Object:
    """``obj`` after the operations; ``obj`` itself where a test fails.

    Raises ChangeError, and a 500 for what makes fields that a built-in kind does not have.
    """
    operations = [_operation(each) for each in json_of(value)]
    if not operations:
        return obj
    try:
        made = json_patch.apply(obj, operations)
    except json_patch.FailedTestError:
        return obj
    except StatusError as problem:
        text = "; ".join(getattr(problem, "__notes__", None) or [problem.message])
        raise ChangeError(f"JSONPath: {text}") from None
    if schema.name and (unknown := check.unknown_fields(made, schema)):
        raise errors.internal(f"strict decoding error: {', '.join(unknown)}")
    return made


def _operation(given: Object) -> Object:
    made: Object = {"op": given.get("op") or "", "path": given.get("path") or ""}
    if given.get("from"):
        made["from"] = given["from"]
    if "value" in given:
        made["value"] = given["value"]
    return made


def json_of(value: Any) -> Any:
    """A value of the language as JSON has it. Raises ChangeError for what JSON has not."""
    if isinstance(value, dict):
        return {str(key): json_of(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [json_of(held) for held in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g}s"
    if name := name_of(value):
        raise ChangeError(f"{_NOT_JSON}: type conversion error from '{name}' to 'google.protobuf.Value'")
    return value

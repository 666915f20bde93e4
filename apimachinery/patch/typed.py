"""Objects as server-side apply handles them: is a configuration well-formed, merge it in, take fields out. Used by ``apply``."""

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from apimachinery.patch import compare, fieldset
from apimachinery.patch.fieldset import SELF, FieldSet
from apimachinery.patch.layout import Shape, element_step, parts, shape_of
from apimachinery.schema.types import ListSchema, MapSchema, ScalarSchema, Schema, StructSchema

Object = dict[str, Any]

_ABSENT: Any = object()


# Checking


def problems(config: Any, schema: StructSchema) -> list[str]:
    """What keeps a configuration from being applied: wrong types, unknown fields, list elements that share or lack keys."""
    found: list[str] = []
    _check(config, schema, "", found)
    return found


def _check(value: Any, schema: Schema, path: str, found: list[str]) -> None:
    if value is None:
        return
    if isinstance(schema, ScalarSchema):
        _check_scalar(value, schema.kind, path, found)
    elif isinstance(schema, ListSchema):
        _check_list(value, schema, path, found)
    elif not isinstance(value, dict):
        found.append(f"{path}: expected map, got &{{{_plain(value)}}}")
    elif isinstance(schema, MapSchema):
        for name, item in value.items():
            _check(item, schema.value, f"{path}.{name}", found)
    else:
        fields = schema.fields
        for name, item in value.items():
            if name in fields:
                _check(item, fields[name].schema, f"{path}.{name}", found)
            elif not schema.open:
                found.append(f"{path}.{name}: field not declared in schema")


_SCALAR: tuple[type, ...] = (str, int, float, bool)
_EXPECTED: dict[str, tuple[tuple[type, ...], str]] = {
    "string": ((str,), "string"),
    "bytes": ((str,), "string"),
    "boolean": ((bool,), "boolean"),
    "int32": ((int, float), "numeric (int or float)"),
    "int64": ((int, float), "numeric (int or float)"),
    "double": ((int, float), "numeric (int or float)"),
    "time": (_SCALAR, "any scalar"),
    "microtime": (_SCALAR, "any scalar"),
    "quantity": (_SCALAR, "any scalar"),
    "intstr": (_SCALAR, "any scalar"),
}


def _check_scalar(value: Any, kind: str, path: str, found: list[str]) -> None:
    if kind not in _EXPECTED:
        return
    types, name = _EXPECTED[kind]
    if type(value) not in types:
        shown = (
            _GO_TYPES[type(value)]
            if kind in ("int32", "int64", "double")
            else f"&value.valueUnstructured{{Value:{_literal(value)}}}"
        )
        found.append(f"{path}: expected {name}, got {shown}")


_GO_TYPES = {str: "string", bool: "bool", dict: "map[string]interface {}", list: "[]interface {}", int: "int64", float: "float64"}


def _literal(value: Any) -> str:
    """A value as Go prints it in its own syntax (``%#v``)."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return orjson.dumps(value).decode()
    if isinstance(value, dict):
        return f"map[string]interface {{}}{{{', '.join(f'{_literal(key)}:{_literal(value[key])}' for key in sorted(value))}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_literal, value))}}}"
    return "interface {}(nil)" if value is None else str(value)


def _plain(value: Any) -> str:
    """A value as Go prints it plainly (``%v``)."""
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{_plain(value[key])}' for key in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(_plain, value))}]"
    return _literal(value) if isinstance(value, bool) else "<nil>" if value is None else str(value)


def _check_list(value: Any, schema: ListSchema, path: str, found: list[str]) -> None:
    if not isinstance(value, list):
        found.append(f"{path}: expected list, got &{{{_plain(value)}}}")
        return
    seen: set[str] = set()
    for position, item in enumerate(value):
        if schema.list_type == "atomic":
            _check(item, schema.element, f"{path}[{position}]", found)
            continue
        step = element_step(schema, item) if item is not None else "k:{}"
        if step == "k:{}":
            keys = " ".join(f'"{key}"' for key in schema.keys)
            omits = "associative list with keys has an element that omits all key fields"
            found.append(f"{path}: element {position}: {omits} [{keys}] (and doesn't have default values for any key field)")
            continue
        if step in seen:
            kind = "key" if schema.list_type == "map" else "value"
            found.append(f"{path}: duplicate entries for {kind} {next(fieldset.paths({step: {}}))}")
        seen.add(step)
        _check(item, schema.element, path + next(fieldset.paths({step: {}})), found)


# Merging


def merge(live: Object, config: Object, schema: StructSchema) -> Object:
    """``live`` with everything that ``config`` states. Shares what it does not change with both."""
    merged: Object = _merge(live, config, Shape.STRUCT, schema)
    return merged


def _merge(live: Any, config: Any, shape: Shape, schema: Any) -> Any:
    if live is _ABSENT or shape is Shape.LEAF or type(live) is not type(config) or not isinstance(live, dict | list):
        return config
    if not config:
        return live if live else config
    if isinstance(live, dict):
        result = dict(live)
        for name, value in config.items():
            inner, inside = _below(name, shape, schema)
            result[name] = _merge(live.get(name, _ABSENT), value, inner, inside)
        return result
    return _merge_list(live, config, schema) if shape in (Shape.KEYED, Shape.SET) else config


def _below(name: str, shape: Shape, schema: Any) -> tuple[Shape, Any]:
    if shape is Shape.MAP:
        return shape_of(schema.value), schema.value
    part = parts(schema).get(name)
    return (part.shape, part.schema) if part else (Shape.LEAF, None)


def _merge_list(live: list[Any], config: list[Any], schema: ListSchema) -> list[Any]:
    """Elements of both: the configuration's in its order, those only ``live`` has between them where they stood before."""
    shape = shape_of(schema.element)
    before = [element_step(schema, item) for item in live]
    after = [element_step(schema, item) for item in config]
    old, new = dict(zip(before, live, strict=True)), dict(zip(after, config, strict=True))
    merged = {step: _merge(old.get(step, _ABSENT), item, shape, schema.element) for step, item in new.items()}
    return [merged[step] if item is _ABSENT else item for step, item in _interleave(before, after, live)]


def _interleave(before: list[str], after: list[str], live: list[Any]) -> Iterator[tuple[str, Any]]:
    """The order of a merged list: ``(step, element)`` for elements only ``live`` has, ``(step, absent)`` for the configuration's.

    Shared elements follow the configuration; one that ``live`` has earlier than its turn waits.
    """
    wanted, held = set(after), set(before)
    shared = iter([step for step in after if step in held])
    turn = next(shared, None)
    placed: set[str] = set()
    left = right = 0
    while left < len(before) or right < len(after):
        step = before[left] if left < len(before) else None
        if step is not None and right < len(after) and step != after[right] and step in wanted and turn not in (None, step):
            left += 1  # its turn comes later
            continue
        if step is not None and step not in wanted:
            yield step, live[left]
            left += 1
            continue
        if step is not None and (step in placed or (right < len(after) and step == after[right])):
            left += 1
        if right < len(after):
            step = after[right]
            placed.add(step)
            yield step, _ABSENT
            right += 1
            if turn == step:
                turn = next(shared, None)


# Taking out


def prune(merged: Object, last: FieldSet, owned: Iterable[FieldSet], schema: StructSchema) -> Object:
    """Take out what the manager stated ``last`` time and nobody in ``owned`` (its new set included) holds."""
    last = _named(last, schema)
    present = _named(compare.fields_of(merged, schema), schema)
    kept = _named(compare.fields_of(without(merged, last, schema), schema), schema)
    held: FieldSet = {}
    for fields in owned:
        held = fieldset.union(held, _named(fields, schema))
    gone = fieldset.difference(fieldset.difference(present, kept), held)
    # What was nobody's, or hung below something removed, must not go unless this manager had stated it.
    kept = _named(compare.fields_of(without(merged, gone, schema), schema), schema)
    pruned: Object = without(merged, fieldset.intersection(fieldset.difference(present, kept), last), schema)
    return pruned


def without_named(obj: Object, fields: FieldSet, schema: StructSchema) -> Object:
    """``obj`` less everything in ``fields``, structs that only lead there included."""
    result: Object = without(obj, _named(fields, schema), schema)
    return result


def put_back(whole: Object, part: Object, owned: Iterable[FieldSet], schema: StructSchema) -> Object:
    """``part``, which was pruned out of ``whole``, and with it again what somebody holds."""
    kept = _named(compare.fields_of(part, schema), schema)
    for fields in owned:
        kept = fieldset.union(kept, _named(fields, schema))
    gone = fieldset.difference(_named(compare.fields_of(whole, schema), schema), kept)
    result: Object = without(whole, gone, schema)
    return result


def _named(fields: FieldSet, schema: StructSchema) -> FieldSet:
    """``with_named_fields``, except for metadata itself: it holds the name and is never taken out as a whole."""
    named = with_named_fields(fields, schema)
    metadata = named.get("f:metadata")
    if metadata and SELF in metadata:
        named["f:metadata"] = {key: node for key, node in metadata.items() if key != SELF}
    return named


def with_named_fields(fields: FieldSet, schema: Schema | None) -> FieldSet:
    """Fields of structs lead to their parts without being in the set themselves; here they are put in."""
    result: FieldSet = {}
    for key, node in fields.items():
        if key == SELF or not node:
            result[key] = node
            continue
        named, inside = _inside(key, schema)
        inner = with_named_fields(node, inside)
        result[key] = {SELF: {}, **inner} if named and SELF not in inner else inner
    return result


def _inside(key: str, schema: Schema | None) -> tuple[bool, Schema | None]:
    """Whether the step is a field of a struct, and the schema behind it."""
    if isinstance(schema, StructSchema):
        field = schema.fields.get(key[2:])
        return field is not None, field.schema if field else None
    if isinstance(schema, MapSchema):
        return False, schema.value
    if isinstance(schema, ListSchema):
        return False, schema.element
    return False, None


def without(obj: Any, fields: FieldSet, schema: Any) -> Any:
    """``obj`` less the members of ``fields``, each with all that is in it. Shares what stays."""
    if not fields or not isinstance(obj, dict | list):
        return obj
    if isinstance(obj, dict):
        result = {}
        for name, value in obj.items():
            node = fields.get(f"f:{name}")
            if node is None:
                result[name] = value
            elif node and SELF not in node:
                result[name] = without(value, node, _inside(f"f:{name}", schema)[1])
        return result
    if not isinstance(schema, ListSchema) or schema.list_type == "atomic":
        return obj
    items = []
    for item in obj:
        node = fields.get(element_step(schema, item))
        if node is None:
            items.append(item)
        elif node and SELF not in node:
            items.append(without(item, node, schema.element))
    return items

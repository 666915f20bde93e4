"""What changed between two objects, as field sets; and the set of everything in one object.

On the hot path of every write: equal subtrees are skipped by one ``==``, and only what differs is walked.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from apimachinery.patch.fieldset import SELF, FieldSet
from apimachinery.patch.layout import Part, Shape, element_part, element_step, parts, shape_of
from apimachinery.schema.types import ListSchema, MapSchema, StructSchema

Object = dict[str, Any]

_ABSENT: Any = object()
_LEAF, _STRUCT, _MAP, _KEYED, _SET = Shape  # looking a member up on its class costs as much as the comparison

# Fields that nobody manages: identity and what the server alone writes.
UNMANAGED = frozenset({"apiVersion", "kind"})
UNMANAGED_METADATA = frozenset(
    {
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    }
)


class Changes(NamedTuple):
    added: FieldSet
    modified: FieldSet
    removed: FieldSet


def changes(old: Object, new: Object, schema: StructSchema, ignored: Iterable[str] = ()) -> Changes:
    """What differs between two objects of one kind, but for unmanaged fields and the top-level fields ``ignored``."""
    skip = UNMANAGED.union(ignored)
    result = Changes({}, {}, {})
    known = parts(schema)
    for name in {**new, **old}:
        if name in skip:
            continue
        if name == "metadata":
            before, after = _managed_metadata(old), _managed_metadata(new)
            _change(before, after, known["metadata"], result, parent_exists=True)
        else:
            part = known.get(name) or Part(f"f:{name}", _LEAF, schema)
            _change(old.get(name, _ABSENT), new.get(name, _ABSENT), part, result, parent_exists=True)
    return result


def _managed_metadata(obj: Object) -> Object:
    return {name: value for name, value in (obj.get("metadata") or {}).items() if name not in UNMANAGED_METADATA}


def _change(old: Any, new: Any, part: Part, into: Changes, *, parent_exists: bool) -> None:
    """Compare one place. ``into`` holds the nodes of its parent."""
    if old is new or old == new:
        return
    step, shape, schema, implicit = part
    if implicit and parent_exists:
        empty: Any = [] if shape in (_KEYED, _SET) else {}
        old = empty if old is _ABSENT else old
        new = empty if new is _ABSENT else new
        if old == new:
            return
    if old is _ABSENT:
        into.added[step] = everything(new, shape, schema)
    elif new is _ABSENT:
        into.removed[step] = everything(old, shape, schema)
    elif shape is _LEAF or type(old) is not type(new) or type(old) not in (dict, list):
        into.modified[step] = {}
    else:
        inner = Changes({}, {}, {})
        _WALKS[shape](old, new, schema, inner)
        for target, nodes in zip(into, inner, strict=True):
            if nodes:
                target[step] = nodes


def _struct(old: Object, new: Object, schema: Any, into: Changes) -> None:
    known = parts(schema)
    for name, value in new.items():
        part = known.get(name) or Part(f"f:{name}", _LEAF, schema)
        _change(old.get(name, _ABSENT), value, part, into, parent_exists=True)
    for name, value in old.items():
        if name not in new:
            part = known.get(name) or Part(f"f:{name}", _LEAF, schema)
            _change(value, _ABSENT, part, into, parent_exists=True)


def _map(old: Object, new: Object, schema: Any, into: Changes) -> None:
    shape = shape_of(schema.value)
    for name in {**new, **old}:
        part = Part(f"f:{name}", shape, schema.value)
        _change(old.get(name, _ABSENT), new.get(name, _ABSENT), part, into, parent_exists=True)


def _list(old: list[Any], new: list[Any], schema: Any, into: Changes) -> None:
    before = {element_step(schema, item): item for item in old}
    after = {element_step(schema, item): item for item in new}
    shape = shape_of(schema.element)
    for step in {**after, **before}:
        part = Part(step, shape, schema.element)
        _change(before.get(step, _ABSENT), after.get(step, _ABSENT), part, into, parent_exists=True)


_WALKS: dict[Shape, Any] = {_STRUCT: _struct, _MAP: _map, _KEYED: _list, _SET: _list}


def everything(value: Any, shape: Shape, schema: Any) -> FieldSet:
    """The node of a value that is wholly new (or wholly gone): it and all of its parts."""
    if shape is _LEAF or not value or type(value) not in (dict, list):
        return {}
    node: FieldSet = {SELF: {}}
    if shape is _STRUCT:
        known = parts(schema)
        for name, item in value.items():
            part = known.get(name)
            node[f"f:{name}"] = everything(item, part.shape, part.schema) if part is not None and part.shape else {}
    elif shape is _MAP:
        inner = shape_of(schema.value)
        for name, item in value.items():
            node[f"f:{name}"] = everything(item, inner, schema.value)
    else:
        inner = shape_of(schema.element)
        for item in value:
            node[element_step(schema, item)] = everything(item, inner, schema.element)
    return node


def fields_of(obj: Object, schema: StructSchema, ignored: Iterable[str] = ()) -> FieldSet:
    """The set an applied configuration claims: its leaves, and each element of lists and maps."""
    skip = UNMANAGED.union(ignored)
    result: FieldSet = {}
    for name, value in obj.items():
        if name in skip:
            continue
        if name == "metadata":
            value = {key: item for key, item in (value or {}).items() if key not in UNMANAGED_METADATA}
            if not value:
                continue
        part = parts(schema).get(name)
        result[f"f:{name}"] = _claimed(value, part.shape, part.schema) if part else {}
    return result


def _claimed(value: Any, shape: Shape, schema: Any) -> FieldSet:
    """The node of a value in an applied configuration: containers themselves are not claimed, only what is in them."""
    if shape is _LEAF or not value or type(value) not in (dict, list):
        return {}
    node: FieldSet = {}
    if isinstance(schema, StructSchema):
        known = parts(schema)
        for name, item in value.items():
            part = known.get(name)
            if item == [] and part is not None and part.shape:
                continue  # there is nothing in it to own
            node[f"f:{name}"] = _claimed(item, part.shape, part.schema) if part else {}
    elif isinstance(schema, MapSchema):
        for name, item in value.items():
            node[f"f:{name}"] = _with_self(_claimed(item, shape_of(schema.value), schema.value))
    elif isinstance(schema, ListSchema):
        for item in value:
            part = element_part(schema, item)
            node[part.step] = _with_self(_claimed(item, part.shape, part.schema))
    return node


def _with_self(node: FieldSet) -> FieldSet:
    return {SELF: {}, **node} if node else node

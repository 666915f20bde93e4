"""Strategic merge patches (``application/strategic-merge-patch+json``): kubectl's patches for built-in kinds.

Like a merge patch, but lists whose schema has ``patchStrategy: merge`` merge by their merge key, and directives say what plain
values cannot: ``$patch`` (delete, replace, merge), ``$retainKeys``, ``$setElementOrder/<list>`` and
``$deleteFromPrimitiveList/<list>``. The element lists live in ``strategic_lists``.

One deliberate difference from upstream: where several elements share a merge key (port 53 on TCP and UDP), the list-map keys of
the schema tell them apart, instead of merging everything into the first (upstream's kubernetes/kubernetes#39188).
"""

from typing import Any

import orjson

from apimachinery import errors
from apimachinery.patch import strategic_lists
from apimachinery.patch.strategic_lists import DELETE_PRIMITIVES, DIRECTIVE, ORDER, RETAIN, bad_patch
from apimachinery.schema.types import Field, ListSchema, MapSchema, Schema, StructSchema

Object = dict[str, Any]


def apply(original: Object, patch: Any, schema: StructSchema) -> Object:
    """The patched object; ``original`` and ``patch`` are left alone.

    Raises StatusError: 400 for a patch that is no object or whose directives make no sense.
    """
    if not isinstance(patch, dict):
        raise errors.bad_request("cannot unmarshal patch: it is not a JSON object")
    # Merging edits both sides as it goes; copies are cheap.
    return merge(orjson.loads(orjson.dumps(original)), orjson.loads(orjson.dumps(patch)), schema)


def merge(original: Object, patch: Object, schema: Schema | None) -> Object:
    """Merge ``patch`` into ``original``, consuming both. ``schema`` None (unknown) merges objects, replaces lists."""
    if DIRECTIVE in patch:
        return _directed(original, patch, schema)
    _retain_keys(original, patch)
    orders = {key[len(ORDER) :]: patch.pop(key) for key in list(patch) if key.startswith(ORDER)}
    for key, value in patch.items():
        if key.startswith(DELETE_PRIMITIVES):
            name = key[len(DELETE_PRIMITIVES) :]
            if name in original:
                original[name] = strategic_lists.without_primitives(original[name], value, key)
        elif value is None:
            original.pop(key, None)
        else:
            original[key] = _merged(original.get(key), value, field_of(schema, key), orders.pop(key, None))
    for name, order in orders.items():  # lists whose order changes, not their content
        if isinstance(original.get(name), list):
            original[name] = strategic_lists.ordered(original[name], order, field_of(schema, name), original[name])
    return original


def _directed(original: Object, patch: Object, schema: Schema | None) -> Object:
    directive = patch.pop(DIRECTIVE)
    if directive == "replace":
        return {key: strip(value) for key, value in patch.items() if value is not None and not key.startswith("$")}
    if directive == "delete":
        return {}
    if directive == "merge":
        return merge(original, patch, schema)
    raise bad_patch(f"unknown patch type found: {directive}")


def _retain_keys(original: Object, patch: Object) -> None:
    """``$retainKeys`` lists the only keys that may remain (one member of a union, say)."""
    kept = patch.pop(RETAIN, None)
    if kept is None:
        return
    if not isinstance(kept, list):
        raise bad_patch("invalid patch format of retainKeys")
    for key, value in patch.items():
        if value is not None and key not in kept and not key.startswith((ORDER, DELETE_PRIMITIVES)):
            raise bad_patch("invalid patch format of retainKeys")
    for key in [key for key in original if key not in kept]:
        del original[key]


def _merged(old: Any, new: Any, field: Field | None, order: Any) -> Any:
    """The value of one field after the patch, by type and strategy."""
    replace = field is not None and "replace" in field.strategies
    if isinstance(new, dict):
        if replace:
            return strip(new)
        return merge(old if isinstance(old, dict) else {}, new, _inside(field))
    if isinstance(new, list):
        if field is None or "merge" not in field.strategies:
            return strip(new)
        before = old if isinstance(old, list) else []
        return strategic_lists.merge_list(before, new, field, order, merge)
    return new


def field_of(schema: Schema | None, key: str) -> Field | None:
    if isinstance(schema, StructSchema):
        return schema.fields.get(key)
    if isinstance(schema, MapSchema):
        return Field(key, schema.value)
    return None


def _inside(field: Field | None) -> Schema | None:
    if field is None or isinstance(field.schema, ListSchema):
        return None
    return field.schema


def strip(value: Any) -> Any:
    """A value taken over whole: nulls and directives in it have nothing to act on."""
    if isinstance(value, dict):
        if value.get(DIRECTIVE) == "delete":
            return {}
        return {key: strip(item) for key, item in value.items() if item is not None and not key.startswith("$")}
    if isinstance(value, list):
        return [strip(item) for item in value if not (isinstance(item, dict) and item.get(DIRECTIVE) == "delete")]
    return value

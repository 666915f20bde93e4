"""The list half of strategic merge patches: which elements meet, which go, and in which order they end. Used by ``strategic``."""

from collections.abc import Callable
from typing import Any

from apimachinery import errors
from apimachinery.schema.types import Field, ListSchema, Schema, StructSchema

Object = dict[str, Any]
Merge = Callable[[Object, Object, Schema | None], Object]

DIRECTIVE = "$patch"
RETAIN = "$retainKeys"
ORDER = "$setElementOrder/"
DELETE_PRIMITIVES = "$deleteFromPrimitiveList/"


def bad_patch(why: str) -> errors.StatusError:
    return errors.bad_request(why)


def merge_list(old: list[Any], patch: list[Any], field: Field, order: Any, merge: Merge) -> list[Any]:
    """A list with ``patchStrategy: merge``: primitives become a set, objects meet by merge key."""
    if order is not None and not isinstance(order, list):
        raise bad_patch(f"invalid patch format of setElementOrder list for {field.name}")
    if not _holds_objects(field):
        _check_order(patch, order, field)
        return ordered(old + [item for item in _distinct(patch) if item not in old], order or patch, field, old)
    kept, rest, replaced = _obey_directives(old, patch, field)
    _check_order(rest, order, field)
    result = list(kept)
    taken: set[int] = set()  # positions that a patch element has met already
    for item in rest:
        position = _find(result, item, field, taken, order if order is not None else rest)
        if position is None:
            taken.add(len(result))
            result.append(merge({}, item, _element(field)))
        else:
            taken.add(position)
            result[position] = merge(result[position], item, _element(field))
    return result if replaced else ordered(result, order if order is not None else rest, field, kept)


def _holds_objects(field: Field) -> bool:
    return bool(field.merge_key)


def _element(field: Field) -> Schema | None:
    return field.schema.element if isinstance(field.schema, ListSchema) else None


def _distinct(items: list[Any]) -> list[Any]:
    return [item for position, item in enumerate(items) if item not in items[:position]]


def _obey_directives(old: list[Any], patch: list[Any], field: Field) -> tuple[list[Any], list[Any], bool]:
    """``$patch`` inside elements. Gives the old elements that stay, the patch elements to merge, and whether all is replaced."""
    kept, rest, replaced = list(old), [], False
    for item in patch:
        if not isinstance(item, dict):
            raise bad_patch(f"list elements of {field.name} must be objects")
        directive = item.pop(DIRECTIVE, None)
        if directive == "replace":
            replaced = True
            if any(key != DIRECTIVE for key in item):
                rest.append(item)
        elif directive == "delete":
            _require_key(item, field)
            kept = [each for each in kept if not _deletes(item, each, field)]
        elif directive is None or directive == "merge":
            rest.append(item)
        else:
            raise bad_patch(f"unknown patch type found: {directive}")
    return ([], rest, True) if replaced else (kept, rest, False)


def _deletes(item: Object, other: Object, field: Field) -> bool:
    """By merge key; a deletion that names further list keys spares elements that differ there."""
    keys = [key for key in _list_keys(field) if key in item and key != field.merge_key]
    return other.get(field.merge_key) == item[field.merge_key] and all(_value(other, key, field) == item[key] for key in keys)


def _require_key(item: Object, field: Field) -> None:
    if item.get(field.merge_key) is None:
        raise bad_patch(f"map: {item} does not contain declared merge key: {field.merge_key}")


def _list_keys(field: Field) -> tuple[str, ...]:
    return field.schema.keys if isinstance(field.schema, ListSchema) else ()


def _value(item: Object, key: str, field: Field) -> Any:
    """A key's value or its default (``protocol`` is TCP unless said)."""
    if key in item:
        return item[key]
    element = _element(field)
    found = element.fields.get(key) if isinstance(element, StructSchema) else None
    return found.default if found else None


def _find(items: list[Any], item: Object, field: Field, taken: set[int], order: list[Any]) -> int | None:
    """Where the element that ``item`` speaks of stands.

    Among elements with its merge key: the one equal in all list keys, else the first that no other patch element met; but
    when the patch knows of more elements with this merge key than there are, ``item`` is a new one.
    """
    _require_key(item, field)
    same = [position for position, each in enumerate(items) if each.get(field.merge_key) == item[field.merge_key]]
    keys = [key for key in _list_keys(field) if key != field.merge_key]
    if not same or not keys:
        return same[0] if same else None
    if any(key in item for key in keys):
        exact = [place for place in same if all(_value(items[place], key, field) == _value(item, key, field) for key in keys)]
        if exact:
            return exact[0]
        wanted = sum(1 for each in order if isinstance(each, dict) and each.get(field.merge_key) == item[field.merge_key])
        if wanted > len(same):
            return None
    free = [place for place in same if place not in taken]
    return free[0] if free else None if any(key in item for key in keys) else same[0]


def _check_order(patch: list[Any], order: list[Any] | None, field: Field) -> None:
    """Every element of the patch must occur in ``$setElementOrder``, in the same relative order."""
    if order is None:
        return
    remaining = iter([_identity(item, field) for item in order])
    if not all(_identity(item, field) in remaining for item in patch):
        text = f"The order in patch list:\n{patch}\n doesn't match {ORDER[:-1]} list:\n{order}\n"
        raise bad_patch(text)


def _identity(item: Any, field: Field) -> Any:
    return item.get(field.merge_key) if field.merge_key and isinstance(item, dict) else item


def ordered(items: list[Any], order: Any, field: Field | None, server: list[Any]) -> list[Any]:
    """Elements that the patch names stand in its order; the others keep their place relative to their old neighbours."""
    if field is None or not isinstance(order, list):
        return items
    wanted = [_identity(item, field) for item in order]
    named = [item for item in items if _identity(item, field) in wanted]
    others = [item for item in items if _identity(item, field) not in wanted]
    named.sort(key=lambda item: wanted.index(_identity(item, field)))
    return _interleave(named, others, [_identity(item, field) for item in server], field)


def _interleave(named: list[Any], others: list[Any], server: list[Any], field: Field) -> list[Any]:
    """Merge two sequences: an element only the server has goes first when it stood before the next named one."""
    result: list[Any] = []
    left, right = 0, 0
    while left < len(named) and right < len(others):
        name, other = _identity(named[left], field), _identity(others[right], field)
        if name in server and server.index(other) < server.index(name):
            result.append(others[right])
            right += 1
        else:
            result.append(named[left])
            left += 1
    return result + named[left:] + others[right:]


def without_primitives(old: Any, gone: Any, key: str) -> list[Any]:
    if not isinstance(old, list) or not isinstance(gone, list):
        raise bad_patch(f"invalid patch format of {key}")
    return [item for item in old if item not in gone]

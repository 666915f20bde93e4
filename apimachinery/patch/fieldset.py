"""Sets of fields, in the very form that ``managedFields`` stores: FieldsV1, a trie of nested dicts.

A key names a step: ``f:replicas`` a field, ``k:{"name":"web"}`` a list element by its keys, ``v:"a"`` one by its value. A path is
in the set when its node is empty (a leaf) or holds ``"."``; other nodes only lead somewhere. The root is special: ``{}`` is the
empty set. Sets are values: operations share nodes between results and arguments, so nobody may change a node in place.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

import orjson

FieldSet: TypeAlias = dict[str, Any]

SELF = "."
_LEAF: FieldSet = {}


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """Every path of either."""
    if not right or left is right:
        return left
    if not left:
        return right
    return _merge(left, right)


def _merge(left: FieldSet, right: FieldSet) -> FieldSet:
    result = dict(left)
    for key, node in right.items():
        held = result.get(key)
        if held is None:
            result[key] = node
        elif held is not node and held != node:
            result[key] = _join(held, node)
    return result


def _join(left: FieldSet, right: FieldSet) -> FieldSet:
    """The union of two nodes below the root, where an empty node is a member."""
    if not left:
        return {SELF: _LEAF, **right}
    if not right:
        return {SELF: _LEAF, **left}
    return _merge(left, right)


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """The paths of ``left`` that are not in ``right``; their parents and children stay. Gives ``left`` itself if none goes."""
    if not left or not right:
        return left
    result: FieldSet | None = None
    for key, other in right.items():
        held = left.get(key)
        if held is None or key == SELF:
            continue
        kept = _subtract(held, other)
        if kept is not held:
            result = dict(left) if result is None else result
            if kept is None:
                del result[key]
            else:
                result[key] = kept
    return left if result is None else result


def _subtract(left: FieldSet, right: FieldSet) -> FieldSet | None:
    """None when nothing is left of the node; the node itself when nothing goes."""
    drops_self = not right or SELF in right
    if not left:
        return None if drops_self else left
    kept = difference(left, right)
    if drops_self and SELF in kept:
        kept = {key: node for key, node in kept.items() if key != SELF}
    if kept is left:
        return left
    if not kept:
        return None
    return _LEAF if len(kept) == 1 and SELF in kept else kept


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """The paths in both."""
    result: FieldSet = {}
    for key, node in left.items():
        other = right.get(key)
        if other is None or key == SELF:
            continue
        common = intersection(node, other)
        if _holds_itself(node) and _holds_itself(other):
            result[key] = {SELF: _LEAF, **common} if common else _LEAF
        elif common:
            result[key] = common
    return result


def without(fields: FieldSet, names: frozenset[str]) -> FieldSet:
    """All but some top-level fields, with everything below them."""
    if not any(f"f:{name}" in fields for name in names):
        return fields
    return {key: node for key, node in fields.items() if key[2:] not in names}


def _holds_itself(node: FieldSet) -> bool:
    return not node or SELF in node


def paths(fields: FieldSet, prefix: str = "") -> Iterator[str]:
    """Each path in the set as messages write it: ``.spec.containers[name="web"].image``."""
    for key in sorted(fields):
        if key == SELF:
            continue
        node, path = fields[key], prefix + _step(key)
        if _holds_itself(node):
            yield path
        yield from paths(node, path)


def _step(key: str) -> str:
    kind, _, rest = key.partition(":")
    if kind == "f":
        return f".{rest}"
    if kind == "k":
        return f"[{','.join(f'{name}={_json(value)}' for name, value in sorted(orjson.loads(rest).items()))}]"
    return f"[={rest}]" if kind == "v" else f"[{rest}]"


def is_valid(fields: Any) -> bool:
    """Whether this is a field set at all: clients may send anything in ``fieldsV1``."""
    return isinstance(fields, dict) and all(_is_step(key) and is_valid(node) for key, node in fields.items())


def _is_step(key: str) -> bool:
    kind, colon, rest = key.partition(":")
    if not colon:
        return key == SELF
    if kind == "f":
        return True
    if kind == "i":
        return rest.removeprefix("-").isdecimal()
    try:
        value = orjson.loads(rest)
    except orjson.JSONDecodeError:
        return False
    return kind == "v" or (kind == "k" and isinstance(value, dict) and bool(value))


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def ordered(fields: FieldSet) -> FieldSet:
    """The same set with its keys in the order upstream writes them."""
    return {key: ordered(fields[key]) for key in sorted(fields)} if fields else fields

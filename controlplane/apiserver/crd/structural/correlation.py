"""Which old value a new one goes back to, on an update: by field, by the keys of a list, not by position (KEP-4008).

Used by the validation of values and by rules, which tolerate what is as it was and show a rule its ``oldSelf``.
"""

from collections.abc import Callable
from typing import Any

import orjson

from controlplane.apiserver.crd.structural import go
from controlplane.apiserver.crd.structural.node import Node


class _Absent:
    """There was nothing, or nothing that can be found again."""


ABSENT: Any = _Absent()


def entry(old: Any, key: str) -> Any:
    """What the field or entry ``key`` was."""
    return old.get(key, ABSENT) if type(old) is dict else ABSENT


def elements(old: Any, node: Node) -> Callable[[Any], Any]:
    """For a list: from an element to what it was. Only elements that have keys are found again."""
    if type(old) is not list or node.list_type != "map":
        return lambda _: ABSENT
    before: dict[bytes, Any] = {}
    for each in old:
        if type(each) is dict:
            before.setdefault(key_of(each, node), each)
    return lambda element: before.get(key_of(element, node), ABSENT) if type(element) is dict else ABSENT


def key_of(element: dict[str, Any], node: Node) -> bytes:
    """The keys of an element of a list of the type map, as one value."""
    return orjson.dumps([element.get(name) for name in node.list_map_keys])


def unchanged(new: Any, old: Any, node: Node | None) -> bool:
    """Deeply equal; the elements of a list that have keys may have moved."""
    if node is None or type(new) is not type(old):
        return go.same(new, old)
    if type(new) is dict:
        return new.keys() == old.keys() and all(unchanged(value, old[key], node.child(key)) for key, value in new.items())
    if type(new) is list and node.list_type == "map" and len(new) == len(old):
        before = elements(old, node)
        return all((found := before(each)) is not ABSENT and unchanged(each, found, node.items) for each in new)
    return go.same(new, old)

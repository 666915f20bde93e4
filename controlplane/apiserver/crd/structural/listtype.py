"""Lists of the types set and map: no element twice (``pkg/apiserver/schema/listtype``)."""

from collections.abc import Iterator
from typing import Any

import orjson

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.crd.structural import go
from controlplane.apiserver.crd.structural.node import Node


def problems(value: Any, node: Node, path: str = "") -> list[FieldError]:
    """Every element that is there a second time, anywhere below."""
    return list(_problems(value, node, path))


def _problems(value: Any, node: Node, path: str) -> Iterator[FieldError]:
    if type(value) is dict:
        for key, inner in value.items():
            if node.additional is not None:
                yield from _problems(inner, node.additional, f"{path}[{key}]")
            if key in node.properties:
                yield from _problems(inner, node.properties[key], f"{path}.{key}" if path else key)
    elif type(value) is list:
        if node.list_type in ("set", "map"):
            yield from duplicates(value, node, path)
        if node.items is not None:
            for position, inner in enumerate(value):
                yield from _problems(inner, node.items, f"{path}[{position}]")


def duplicates(value: list[Any], node: Node, path: str = "") -> list[FieldError]:
    """The second appearance of each element of one list; of a map, the keys count alone."""
    if node.list_type == "map":
        for position, each in enumerate(value):
            if each is not None and type(each) is not dict:
                text = "must be an object for an array of list-type map"
                return [fieldpath.invalid(f"{path}[{position}]", go.ordered(each), text)]
    if len(value) <= 1:
        return []
    elements = value if node.list_type == "set" else [_keys(each, node) for each in value]
    seen: dict[Any, int] = {}
    found = []
    for position, each in enumerate(elements):
        identity = (type(each), orjson.dumps(each, option=orjson.OPT_SORT_KEYS) if isinstance(each, dict | list) else each)
        seen[identity] = seen.get(identity, 0) + 1
        if seen[identity] == 2:
            found.append(fieldpath.duplicate(f"{path}[{position}]", go.ordered(each)))
    return found


def _keys(element: Any, node: Node) -> dict[str, Any]:
    """An absent key is not the same as one that is null."""
    return {} if element is None else {name: element[name] for name in node.list_map_keys if name in element}

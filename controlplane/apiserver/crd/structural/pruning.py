"""What a schema does not know goes away (``pkg/apiserver/schema/pruning``), and null where nothing may be null.

:func:`fits` is the quick answer, for almost every object; :func:`prune` walks, changes and names what it dropped. Asked of what
clients send and of what is read from the store.
"""

from typing import Any

from controlplane.apiserver.crd.structural.node import META_FIELDS, Node


def fits(value: Any, node: Node | None, *, resource: bool = False, keep: bool = False) -> bool:
    """Whether there is nothing to prune.

    ``resource``: type and metadata are known beside what the schema says. ``keep``: unknown fields stay, as the schema of the
    list around says. Without a schema nothing below is known.
    """
    if type(value) is dict:
        if node is None:
            return keep or not value
        properties, keep = node.properties, keep or node.preserve
        for key, inner in value.items():
            if resource and key in META_FIELDS:
                continue
            below = properties.get(key)
            if below is None:
                if node.additional_allowed is None:
                    if keep:
                        continue
                    return False
                below = node.additional
            if inner is None:
                if _is_void(below):
                    return False
            elif (type(inner) is dict or type(inner) is list) and not fits(
                inner, below, resource=below is not None and below.embedded
            ):
                return False
    elif type(value) is list:
        keep = keep or (node is not None and node.preserve)
        below = node.items if node is not None else None
        embedded = below is not None and below.embedded
        for inner in value:
            if (type(inner) is dict or type(inner) is list) and not fits(inner, below, resource=embedded, keep=keep):
                return False
    return True


def prune(value: Any, node: Node, *, resource: bool = False) -> list[str]:
    """Drop what is unknown, in place. Gives the paths of unknown fields (``spec.containers[0].foo``), sorted."""
    if fits(value, node, resource=resource):
        return []
    found: list[str] = []
    _prune(value, node, resource, False, "", found)
    return sorted(found)


def _prune(value: Any, node: Node | None, resource: bool, keep: bool, path: str, found: list[str]) -> None:
    keep = keep or (node is not None and node.preserve)
    if type(value) is dict:
        for key in list(value):
            if resource and key in META_FIELDS:
                continue
            here = f"{path}.{key}" if path else key
            below = node.properties.get(key) if node is not None else None
            if below is None:
                if node is None or node.additional_allowed is None:
                    if not keep:
                        del value[key]
                        found.append(here)
                    continue
                below = node.additional
            if value[key] is None and _is_void(below):
                del value[key]
            else:
                _prune(value[key], below, below is not None and below.embedded, False, here, found)
    elif type(value) is list:
        below = node.items if node is not None else None
        for position, inner in enumerate(value):
            _prune(inner, below, below is not None and below.embedded, keep, f"{path}[{position}]", found)


def _is_void(node: Node | None) -> bool:
    """Null says nothing here: nothing may be null, and there is no default that it could stand for."""
    return node is not None and not node.nullable and node.default is None

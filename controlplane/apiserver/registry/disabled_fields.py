"""Fields whose feature is off: what a client writes there is dropped, unless the stored object uses the feature already.

Called by ``store`` and ``update`` before the kind prepares an object. Source of the rule: the ``dropDisabledFields`` functions
of upstream's strategies; which fields they are is in ``kinds.gated_fields``.
"""

from collections.abc import Sequence
from typing import Any

Path = tuple[str, ...]
EACH = "*"  # every item of a list, every value of a map

_Found = list[tuple[dict[str, Any], str, int]]  # (the object that has the field, the field, which path it is)


class DisabledFields:
    """The disabled fields of one kind as one tree: every write of the kind walks it once, and mostly finds nothing."""

    __slots__ = ("_tree", "paths")

    def __init__(self, paths: Sequence[Path] = ()) -> None:
        """Items of a path may be ``EACH``; the last one is the field."""
        self.paths = tuple(paths)
        self._tree: dict[str, Any] = {}
        for number, path in enumerate(self.paths):
            node = self._tree
            for name in path[:-1]:
                node = node.setdefault(name, {})
            node[path[-1]] = number

    def drop(self, obj: dict[str, Any], old: dict[str, Any] | None) -> None:
        """Remove from ``obj``, in place, every one of the fields that ``old`` has nowhere."""
        found: _Found = []
        _find(obj, self._tree, found)
        if not found:
            return
        held: _Found = []
        if old is not None:
            _find(old, self._tree, held)
        used = {number for _, _, number in held}
        for holder, name, number in found:
            if number not in used:
                del holder[name]


def _find(value: Any, node: dict[str, Any], found: _Found) -> None:
    for name, below in node.items():
        if name == EACH:
            for item in value.values() if type(value) is dict else value if type(value) is list else ():
                _find(item, below, found)
        elif type(value) is dict and (inner := value.get(name)) is not None:
            if type(below) is int:
                found.append((value, name, below))
            else:
                _find(inner, below, found)


NONE = DisabledFields()

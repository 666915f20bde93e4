"""``selectableFields``: what field selectors may ask about a custom resource, beyond its name and namespace."""

from collections.abc import Mapping, Sequence
from typing import Any

from apimachinery.jsonpath import JSONPath, PathError

Object = dict[str, Any]


class SelectableFields:
    """Fields are called after their paths: ``.spec.color`` is ``spec.color``."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = {path.removeprefix("."): JSONPath(path) for path in paths}
        self.names = frozenset(self._paths)

    def of(self, obj: Object) -> Mapping[str, str]:
        return {name: _value(path, obj) for name, path in self._paths.items()} if self._paths else {}


def _value(path: JSONPath, obj: Object) -> str:
    """A text, number or truth value in words; nothing for what is not there."""
    try:
        found = path.find(obj)
    except PathError:
        return ""
    if not found or isinstance(found[0], dict | list):
        return ""
    value = found[0]
    return str(value).lower() if isinstance(value, bool) else str(value)

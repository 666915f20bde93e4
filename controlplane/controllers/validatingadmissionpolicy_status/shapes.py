"""Schemas of OpenAPI as types of expressions. Pure. Upstream: ``cel/common.SchemaDeclType`` over ``cel/openapi``."""

import re
from collections.abc import Mapping
from typing import Any

from apimachinery.cel import shapes
from apimachinery.cel.shapes import ANY, Shape

_SCALARS = {"boolean": shapes.BOOL, "integer": shapes.INT, "number": shapes.DOUBLE, "string": shapes.STRING}
_FORMATS = {"byte": shapes.BYTES, "date": shapes.TIMESTAMP, "date-time": shapes.TIMESTAMP, "duration": shapes.DURATION}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-/]*")
_SYMBOLS = re.compile(r"__|\.|-|/")
_ESCAPED = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_WORDS = """
    true false null in as break const continue else for function if import let loop package namespace return
"""
_RESERVED = frozenset(_WORDS.split())


class Shapes:
    """The types of one document's definitions; ``prefix`` tells those of one document from those of another."""

    def __init__(self, definitions: Mapping[str, Any], prefix: str) -> None:
        self._definitions, self._prefix = definitions, prefix
        self._made: dict[str, Shape] = {}
        self._under_way: set[str] = set()
        self._count = 0

    def of(self, name: str) -> Shape:
        """Of a definition. What is defined by itself is anything where it comes round."""
        if name in self._made:
            return self._made[name]
        if name in self._under_way or name not in self._definitions:
            return ANY
        self._under_way.add(name)
        made = self._made[name] = self._of(self._definitions[name])
        self._under_way.discard(name)
        return made

    def _of(self, schema: Mapping[str, Any]) -> Shape:
        parts: Any = schema.get("allOf") or ()
        if "$ref" not in schema and len(parts) == 1 and "$ref" in parts[0]:
            schema = parts[0]
        if "$ref" in schema:
            return self.of(str(schema["$ref"]).rpartition("/")[2])
        if schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields"):
            return ANY
        kind = schema.get("type")
        if kind == "array":
            return shapes.list_of(self._of(schema.get("items") or {}))
        if kind == "object":
            return self._object(schema)
        if kind == "string" and schema.get("format") in _FORMATS:
            return _FORMATS[schema["format"]]
        return _SCALARS.get(str(kind), ANY)

    def _object(self, schema: Mapping[str, Any]) -> Shape:
        more, properties = schema.get("additionalProperties"), schema.get("properties")
        if isinstance(more, Mapping):
            return shapes.map_of(self._of(more))
        if not properties:
            return ANY
        fields: dict[str, Shape] = {}
        seen: set[str] = set()
        for name, inner in properties.items():
            said = escaped(name)
            if said is None:
                continue
            shape, folded = self._of(inner), said.replace("_", "").lower()
            fields[said] = ANY if shape.kind == "map" and folded in seen else shape  # two such maps would be one type
            seen.add(folded)
        self._count += 1
        return shapes.object_of(f"{self._prefix}{self._count}", fields)


def escaped(name: str) -> str | None:
    """A field's name in expressions; None for one that cannot be said (``cel.Escape``)."""
    if not _NAME.fullmatch(name):
        return None
    return f"__{name}__" if name in _RESERVED else _SYMBOLS.sub(lambda found: _ESCAPED[found[0]], name)

"""What a schema's values are in expressions: their types, and the most that there can be of them (``cel.SchemaDeclType``).

A value whose schema says too little has no type, and no expression can name it. Sizes are in bytes of JSON, bounded by the
largest request there can be.
"""

import re
from dataclasses import dataclass, replace

from apimachinery.cel import shapes
from apimachinery.cel.shapes import Shape
from controlplane.apiserver.crd.structural.node import Node
from controlplane.apiserver.crd.structural.rules.estimate import Size

MAX_REQUEST = 3 << 20
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-/]*")
_SYMBOLS = re.compile(r"__|\.|-|/")
_ESCAPED = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_WORDS = """
    true false null in as break const continue else for function if import let loop package namespace return
"""
_RESERVED = frozenset(_WORDS.split())
_TIMES = {"duration": (shapes.DURATION, 32, 4), "date": (shapes.TIMESTAMP, 12, 12), "date-time": (shapes.TIMESTAMP, 29, 21)}
"""Formats of text that are types of their own; the longest and the shortest there is."""


@dataclass(frozen=True, slots=True)
class Declared:
    """``size`` is the most there can be, ``least`` the bytes that a value takes at the least."""

    shape: Shape
    size: Size
    least: int


def escaped(name: str) -> str | None:
    """A field's name in expressions; None for one that cannot be said (``cel.Escape``)."""
    if not _NAME.fullmatch(name):
        return None
    return f"__{name}__" if name in _RESERVED else _SYMBOLS.sub(lambda found: _ESCAPED[found[0]], name)


def with_meta(node: Node) -> Node:
    """A resource's type and name can be asked for, whatever the schema says."""
    text = Node(type="string")
    metadata = Node(type="object", properties={"name": text, "generateName": text})
    return replace(node, properties={**node.properties, "kind": text, "apiVersion": text, "metadata": metadata})


class Types:
    """The types of one schema's nodes, each made once."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, bool], Declared | None] = {}
        self._kept: list[Node] = []  # so that no other node takes the identity of one that is gone
        self._names = 0

    def of(self, node: Node, *, resource: bool = False) -> Declared | None:
        key = (id(node), resource)
        if key not in self._made:
            self._kept.append(node)
            self._made[key] = self._make(with_meta(node) if resource else node)
        return self._made[key]

    def _make(self, node: Node) -> Declared | None:
        if node.int_or_string:
            return Declared(shapes.ANY, _text_size(node), 1)
        if node.type == "array":
            return self._list(node)
        if node.type == "object":
            return self._map(node) if node.additional is not None else self._object(node)
        if node.type == "string":
            return _text(node)
        shape = {"boolean": shapes.BOOL, "number": shapes.DOUBLE, "integer": shapes.INT}.get(node.type)
        return Declared(shape, Size(1), 4 if node.type == "boolean" else 1) if shape is not None else None

    def _list(self, node: Node) -> Declared | None:
        element = self.of(node.items, resource=node.items.embedded) if node.items is not None else None
        if element is None:
            return None
        most = (MAX_REQUEST - 2) // (element.least + 1) if node.max_items is None else max(node.max_items, 0)
        return Declared(shapes.list_of(element.shape), Size(most, element.size), 2)

    def _map(self, node: Node) -> Declared | None:
        assert node.additional is not None
        value = self.of(node.additional, resource=node.additional.embedded)
        if value is None:
            return None
        most = (MAX_REQUEST - 2) // (value.least + 6) if node.max_properties is None else max(node.max_properties, 0)
        return Declared(shapes.map_of(value.shape), Size(most, value.size, key=Size(MAX_REQUEST - 2, text=True)), 2)

    def _object(self, node: Node) -> Declared:
        fields: dict[str, Declared] = {}
        least = 2
        for name, inner in node.properties.items():
            declared, said = self.of(inner, resource=inner.embedded), escaped(name)
            if declared is None:
                continue
            if said is not None:
                fields[said] = declared
            if name in node.required and inner.default is None:
                least += len(name) + declared.least + 4
        self._names += 1
        shape = shapes.object_of(f"Object{self._names}", _distinct(fields))
        return Declared(shape, Size(1, fields={name: one.size for name, one in fields.items()}), least)


def _distinct(fields: dict[str, Declared]) -> dict[str, Shape]:
    """Maps whose names differ in case alone would be one type to the checker: the later ones may hold anything."""
    found: dict[str, Shape] = {}
    seen: set[str] = set()
    for name, one in fields.items():
        folded = name.replace("_", "").lower()
        found[name] = shapes.ANY if one.shape.kind == "map" and folded in seen else one.shape
        seen.add(folded)
    return found


def _text(node: Node) -> Declared:
    if node.format in _TIMES:
        shape, longest, shortest = _TIMES[node.format]
        return Declared(shape, Size(longest), shortest)
    if node.format == "byte":
        most = MAX_REQUEST - 2 if node.max_length is None else max(node.max_length, 0)
        return Declared(shapes.BYTES, Size(most, text=True), 2)
    return Declared(shapes.STRING, _text_size(node), 2)


def _text_size(node: Node) -> Size:
    """A character may take four bytes."""
    if node.max_length is not None:
        return Size(max(node.max_length, 0) * 4, text=True)
    if node.enum and not node.int_or_string:
        return Size(max((len(one.encode()) for one in node.enum if isinstance(one, str)), default=0), text=True)
    return Size(MAX_REQUEST - 2, text=True)

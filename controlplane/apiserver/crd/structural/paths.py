"""Paths such as ``.spec.replicas`` or ``.spec.labels['a.b']`` that lead to a field of a schema (``cel.ValidFieldPath``).

Rules say with one where their error belongs, definitions which fields can be selected by.
"""

import re

from controlplane.apiserver.crd.structural.node import Node

_PIECE = re.compile(r"'(?:[^'\\]|\\.|\\$)*'|[.\[\]]|[^.\[\]']+[^.\[\]]*|'.*", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}
_NO_FIELD = "does not refer to a valid field"
_ENDS = "unexpected end of JSON path"


class FieldPathError(ValueError):
    """The path leads nowhere; the text is upstream's."""


def resolve(text: str, node: Node, *, brackets: bool = True) -> tuple[str, Node]:
    """The path as errors name it, and the schema of the field. Raises FieldPathError."""
    pieces = iter(_PIECE.findall(text))
    place = ""
    for piece in pieces:
        if piece == "." or (piece == "[" and brackets):
            name = next(pieces, None)
            if name is None:
                raise FieldPathError(_ENDS)
            if piece == "[":
                name = _unquoted(name)
            place, node = _step(place, name, node)
            if piece == "[" and (closing := next(pieces, None)) != "]":
                raise FieldPathError(_ENDS if closing is None else f"expected ] but got {closing}")
        elif piece == "[":
            raise FieldPathError("array notation is not allowed")
        else:
            raise FieldPathError(f"expected [ or . but got: {piece}")
    return place, node


def _step(place: str, name: str, node: Node) -> tuple[str, Node]:
    if node.properties:
        if name not in node.properties:
            raise FieldPathError(_NO_FIELD)
        return (f"{place}.{name}" if place else name), node.properties[name]
    if node.additional is None:
        raise FieldPathError(_NO_FIELD)
    return f"{place}[{name}]", node.additional


def _unquoted(piece: str) -> str:
    if len(piece) < 2 or piece[0] != "'" or piece[-1] != "'":
        raise FieldPathError(f"expected single quoted string but got {piece}")

    def character(found: re.Match[str]) -> str:
        if found[1] not in _ESCAPED:
            raise FieldPathError(f"invalid string literal: invalid escape char {found[0]}")
        return _ESCAPED[found[1]]

    return _ESCAPE.sub(character, piece[1:-1])

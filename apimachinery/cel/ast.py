"""A checked expression as plain values, read from the library's serialised form (``cel.expr.CheckedExpr``, protobuf).

Only what ``cost`` and the check of field names look at is kept. The wire format is read here by hand, as the messages have no
Python classes of their own in the library.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_KINDS = {1: "null_type", 2: "bool", 3: "int", 4: "uint", 5: "double", 6: "string", 7: "bytes"}
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class Constant:
    value: Any  # text, bytes; None for what has no size
    kind: str = ""  # the type's name in the language


@dataclass(frozen=True, slots=True)
class Ident:
    name: str


@dataclass(frozen=True, slots=True)
class Select:
    operand: "Node"
    field: str
    test_only: bool  # has(...)


@dataclass(frozen=True, slots=True)
class Call:
    function: str
    target: "Node | None"
    args: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class CreateList:
    elements: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class CreateMap:
    """A map, or a message of the type ``message``, whose fields are not kept as keys."""

    keys: "tuple[Node, ...]"
    values: "tuple[Node, ...]"
    message: str = ""


@dataclass(frozen=True, slots=True)
class Comprehension:
    """What the macros become: ``all``, ``exists``, ``map``, ``filter``, ``cel.bind``."""

    variables: tuple[str, ...]
    over: "Node"
    accumulator: str
    start: "Node"
    condition: "Node"
    step: "Node"
    result: "Node"


Node = Constant | Ident | Select | Call | CreateList | CreateMap | Comprehension


def read(serialised: bytes) -> Node:
    """Raises ValueError for what is no expression, checked or only parsed (``cel.expr.ParsedExpr``)."""
    wrapped = _Message(serialised)
    if wrapped.text(1).endswith("ParsedExpr"):
        return _node(_Message(wrapped.last(2)).last(2))
    checked = _Message(wrapped.last(2)) if wrapped.text(1).startswith("type.googleapis.com/") else wrapped
    return _node(checked.last(4))


def children(node: Node) -> Iterator[Node]:
    """The nodes right below."""
    match node:
        case Select(operand):
            yield operand
        case Call(_, target, args):
            if target is not None:
                yield target
            yield from args
        case CreateList(elements):
            yield from elements
        case CreateMap(keys, values):
            yield from keys
            yield from values
        case Comprehension():
            yield from (node.over, node.start, node.condition, node.step, node.result)


class _Message:
    def __init__(self, data: bytes) -> None:
        self._fields: dict[int, list[Any]] = {}
        position = 0
        value: Any
        while position < len(data):
            tag, position = _varint(data, position)
            number, kind = tag >> 3, tag & 7
            if kind == _VARINT:
                value, position = _varint(data, position)
            elif kind == _BYTES:
                length, position = _varint(data, position)
                value = data[position : position + length]
                position += length
            elif kind in (_FIXED64, _FIXED32):
                size = 8 if kind == _FIXED64 else 4
                value = data[position : position + size]
                position += size
            else:
                raise ValueError(f"wire type {kind} in an expression")
            self._fields.setdefault(number, []).append(value)

    def has(self, number: int) -> bool:
        return number in self._fields

    def last(self, number: int) -> bytes:
        values = self._fields.get(number)
        return values[-1] if values else b""

    def every(self, number: int) -> list[bytes]:
        return self._fields.get(number, [])

    def text(self, number: int) -> str:
        return self.last(number).decode()

    def flag(self, number: int) -> bool:
        return bool(self._fields.get(number, [0])[-1])


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if position >= len(data):
            raise ValueError("an expression breaks off")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position
        shift += 7


def _node(data: bytes) -> Node:
    message = _Message(data)
    for number, make in _MAKERS.items():
        if message.has(number):
            return make(_Message(message.last(number)))
    return Constant(None)


def _constant(message: _Message) -> Node:
    kind = next((name for number, name in _KINDS.items() if message.has(number)), "")
    if kind == "string":
        return Constant(message.text(6), kind)
    return Constant(message.last(7) if kind == "bytes" else None, kind)


def _call(message: _Message) -> Node:
    target = _node(message.last(1)) if message.has(1) else None
    return Call(message.text(2), target, tuple(_node(each) for each in message.every(3)))


def _map(message: _Message) -> Node:
    entries = [_Message(each) for each in message.every(2)]
    keys = tuple(_node(entry.last(3)) for entry in entries if entry.has(3))
    return CreateMap(keys, tuple(_node(entry.last(4)) for entry in entries), message.text(1))


def _comprehension(message: _Message) -> Node:
    variables = tuple(filter(None, (message.text(1), message.text(8))))
    return Comprehension(
        variables,
        _node(message.last(2)),
        message.text(3),
        _node(message.last(4)),
        _node(message.last(5)),
        _node(message.last(6)),
        _node(message.last(7)),
    )


_MAKERS = {
    3: _constant,
    4: lambda message: Ident(message.text(1)),
    5: lambda message: Select(_node(message.last(1)), message.text(2), message.flag(3)),
    6: _call,
    7: lambda message: CreateList(tuple(_node(each) for each in message.every(1))),
    8: _map,
    9: _comprehension,
}

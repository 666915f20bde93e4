"""Types of objects for the type checker: what a field is called, and what it holds.

Made by whoever knows them (the request that admission sees, the schema of a kind); ``Environment(pool=pool_of(...))``
checks expressions against them and never evaluates. They become protobuf messages, as those are the types that the
evaluator's checker knows. What messages cannot say (a map of maps, a list of lists, text or number) is anything.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from google.protobuf import descriptor_pb2, duration_pb2, struct_pb2, timestamp_pb2

from apimachinery.cel import values

_NAME = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_SCALARS = {"double": 1, "int": 3, "bool": 8, "string": 9, "bytes": 12}
_MESSAGE, _ONE, _MANY = 11, 1, 3
_WELL_KNOWN = {
    "any": ".google.protobuf.Value",
    "list": ".google.protobuf.ListValue",
    "map": ".google.protobuf.Struct",
    "timestamp": ".google.protobuf.Timestamp",
    "duration": ".google.protobuf.Duration",
}


@dataclass(frozen=True, slots=True)
class Shape:
    """``kind`` is any, bool, bytes, double, duration, int, string, timestamp, list, map or object.

    ``name`` is an object type's.
    """

    kind: str
    element: "Shape | None" = None
    name: str = ""
    fields: "Mapping[str, Shape]" = field(default_factory=dict)
    package: str = "kubernetes"  # types of one package may refer to one another


ANY, BOOL, BYTES, DOUBLE, DURATION, INT, STRING, TIMESTAMP = (
    Shape(kind) for kind in ("any", "bool", "bytes", "double", "duration", "int", "string", "timestamp")
)


def list_of(element: Shape) -> Shape:
    return Shape("list", element)


def map_of(element: Shape) -> Shape:
    """By text."""
    return Shape("map", element)


def object_of(name: str, fields: Mapping[str, Shape], package: str = "kubernetes") -> Shape:
    """Objects of one name have the same fields."""
    return Shape("object", None, name, fields, package)


def type_name(shape: Shape) -> str:
    """What the type of an object is called in expressions."""
    return f"{shape.package}.{shape.name}" if shape.package else shape.name


def pool_of(*shapes: Shape) -> Any:
    """A descriptor pool with the object types in ``shapes`` and all that they refer to, and Kubernetes' own."""
    files: dict[str, Any] = {}
    found: set[str] = set()
    for shape in shapes:
        for each in _objects(shape, found):
            if each.package not in files:
                files[each.package] = _file(each.package)
            message = files[each.package].message_type.add(name=each.name)
            message.options.deprecated_legacy_json_field_conflicts = True  # fooBar beside foo_bar
            _add(message, each)
    pool = values.new_pool()
    for known in (duration_pb2, struct_pb2, timestamp_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    for file in files.values():
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def _file(package: str) -> Any:
    file = descriptor_pb2.FileDescriptorProto(name=f"shapes/{package}.proto", package=package, syntax="proto2")
    file.dependency.extend(f"google/protobuf/{name}.proto" for name in ("duration", "struct", "timestamp"))
    return file


def _objects(shape: Shape, seen: set[str]) -> Iterator[Shape]:
    pending = [shape]
    while pending:
        found = pending.pop()
        if found.element is not None:
            pending.append(found.element)
        if found.kind == "object" and type_name(found) not in seen:
            seen.add(type_name(found))
            yield found
            pending += found.fields.values()


def _add(message: Any, shape: Shape) -> None:
    number = 0
    for name, held in shape.fields.items():
        if _NAME.fullmatch(name):
            number += 1
            _add_field(message, shape, name, number, held)


def _add_field(message: Any, owner: Shape, name: str, number: int, held: Shape) -> None:
    if held.kind == "list" and held.element is not None:
        kind, of = _single(held.element)
        message.field.add(name=name, number=number, type=kind, label=_MANY, type_name=of)
    elif held.kind == "map" and held.element is not None:
        entry = message.nested_type.add(name=f"{_camel(name)}Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=_SCALARS["string"], label=_ONE)
        kind, of = _single(held.element)
        entry.field.add(name="value", number=2, type=kind, label=_ONE, type_name=of)
        message.field.add(
            name=name,
            number=number,
            type=_MESSAGE,
            label=_MANY,
            type_name=f".{type_name(owner)}.{_camel(name)}Entry",
        )
    else:
        kind, of = _single(held)
        message.field.add(name=name, number=number, type=kind, label=_ONE, type_name=of)


def _single(shape: Shape) -> tuple[int, str | None]:
    """Protobuf's type, and the message's name."""
    if shape.kind == "object":
        return _MESSAGE, f".{type_name(shape)}"
    if shape.kind in _SCALARS:
        return _SCALARS[shape.kind], None
    return _MESSAGE, _WELL_KNOWN[shape.kind]


def _camel(name: str) -> str:
    """As protobuf names the entry type of a map: ``node_labels`` becomes ``NodeLabels``."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))

"""Kubernetes' protobuf form of objects, driven by the message table of the schema data. Go clients prefer it for built-in kinds.

Called by ``scheme`` for request bodies and by ``endpoints`` for answers. An object travels as the four bytes ``k8s\\0`` and a
``runtime.Unknown`` that holds its type and its message; objects here are the same plain dicts as everywhere.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import orjson

from apimachinery.codecs import protobuf_wire as wire
from apimachinery.codecs.protobuf_types import OMIT, SPECIAL, base64_bytes, base64_text
from apimachinery.gvk import GroupVersion, GroupVersionKind
from apimachinery.schema.loader import read_data

Object = dict[str, Any]

MAGIC = b"k8s\0"
_META = "k8s.io.apimachinery.pkg.apis.meta.v1."
_META_KINDS = frozenset(
    {"Status", "DeleteOptions", "PartialObjectMetadata", "PartialObjectMetadataList", "WatchEvent", "APIVersions", "APIGroup"}
    | {"APIGroupList", "APIResourceList", "CreateOptions", "UpdateOptions", "PatchOptions", "ListOptions"}
)
_EXTENSIONS = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions"
_PACKAGES = {"internal.apiserver.k8s.io": "apiserverinternal"}  # where the group does not say it
_ROOTS = {"apiextensions": _EXTENSIONS.rpartition(".")[0], "apiregistration": "k8s.io.kube_aggregator.pkg.apis"}
_INTEGERS = frozenset({"int32", "int64"})


@dataclass(frozen=True, slots=True)
class Field:
    """``name`` is the JSON name; empty for a struct that JSON inlines."""

    name: str
    number: int
    type: str
    repeated: bool
    key_value: str  # the value type of a map, else empty
    kept: bool  # whether zero says something (a pointer in Go); elsewhere it is what upstream writes for a field nobody set


class Messages:
    """Every message of the release; each is read when first met."""

    def __init__(self, texts: dict[str, str]) -> None:
        self._texts = texts
        self._fields: dict[str, dict[int, Field]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._texts

    def fields(self, name: str) -> dict[int, Field]:
        found = self._fields.get(name)
        if found is None:
            found = self._fields[name] = {field.number: field for field in map(_field, orjson.loads(self._texts[name]))}
        return found


def _field(row: list[Any]) -> Field:
    _, name, number, kind, *marks = row
    inner = kind.removeprefix("map<string,").removesuffix(">") if kind.startswith("map<") else ""
    return Field(name, number, kind, "repeated" in marks, inner, "kept" in marks)


@cache
def messages() -> Messages:
    """The message table, read once per process."""
    return Messages(orjson.loads(read_data("protobuf.json")))


def message_of(gvk: GroupVersionKind) -> str | None:
    """The message that carries a kind; None when protobuf has none for it."""
    if gvk.kind in _META_KINDS:
        name = _META + gvk.kind
    else:
        package = _PACKAGES.get(gvk.group) or gvk.group.partition(".")[0] or "core"
        root = _ROOTS.get(package, "k8s.io.api")
        name = f"{root}.{package}.{gvk.version}.{gvk.kind}"
    return name if name in messages() else None


# --------------------------------------------------------------------------- reading


def decode(data: bytes) -> Object:
    """An enveloped object. Raises ValueError with Go's words where it has some."""
    if not data.startswith(MAGIC):
        raise ValueError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    api_version = kind = ""
    raw = b""
    for number, _, value in wire.fields(data[len(MAGIC) :]):
        if number == 1 and isinstance(value, bytes):
            texts = {key: text.decode() for key, _, text in wire.fields(value) if isinstance(text, bytes)}
            api_version, kind = texts.get(1, ""), texts.get(2, "")
        elif number == 2 and isinstance(value, bytes):
            raw = value
    group, version = GroupVersion.parse(api_version)
    name = message_of(GroupVersionKind(group, version, kind))
    if name is None:
        raise ValueError(f'no kind "{kind}" is registered for version "{api_version}"')
    return {"apiVersion": api_version, "kind": kind, **decode_message(raw, name)}


def decode_message(data: bytes, name: str) -> Object:
    """One message as the object that JSON would give."""
    known = messages().fields(name)
    obj: Object = {}
    for number, _, value in wire.fields(data):
        field = known.get(number)
        if field is None:
            continue
        if field.key_value:
            _read_entry(obj, field, value)
            continue
        item = _read(field.type, value)
        if item is OMIT:
            continue
        if field.repeated:
            obj.setdefault(field.name, []).append(item)
        elif not field.name:
            obj.update(item)
        elif item or field.kept or type(item) is dict or field.type in SPECIAL or field.type in _SCHEMA_UNIONS:
            obj[field.name] = item
    return obj


def _read_entry(obj: Object, field: Field, data: int | bytes) -> None:
    entries = obj.get(field.name)
    if entries is None:
        entries = obj[field.name] = {}
    key, item = "", None
    assert isinstance(data, bytes)
    for number, _, value in wire.fields(data) if data else ():
        if number == 1 and isinstance(value, bytes):
            key = value.decode()
        elif number == 2:
            item = _read(field.key_value, value)
    entries[key] = _read(field.key_value, b"") if item is None else item


def _read(kind: str, value: int | bytes) -> Any:
    if isinstance(value, int):
        if kind in _INTEGERS:
            return wire.signed(value)
        return bool(value) if kind == "bool" else value
    if kind == "string":
        return value.decode()
    if kind == "bytes":
        return base64_text(value)
    if kind == "double":
        if len(value) != 8:
            raise ValueError("proto: wrong wireType for a double field")
        return struct.unpack("<d", value)[0]
    if kind in _INTEGERS or kind == "bool":
        raise ValueError(f"proto: wrong wireType = 2 for a field of type {kind}")
    special = SPECIAL.get(kind) or _SCHEMA_UNIONS.get(kind)
    return special[0](value) if special else decode_message(value, kind)


def _decode_union(kind: str) -> Callable[[bytes], Any]:
    """JSONSchemaPropsOrArray, OrBool and OrStringArray: JSON holds whichever of their members is set, bare."""

    def decode_union(data: bytes) -> Any:
        members = {field.name: field for field in messages().fields(kind).values()}
        obj = decode_message(data, kind)
        if "schema" in obj:
            return obj["schema"]
        return next((obj[name] for name in members if name in obj), "allows" in members and bool(obj.get("allows")))

    return decode_union


def _encode_union(kind: str) -> Callable[[Any], bytes]:
    def encode_union(value: Any) -> bytes:
        if isinstance(value, dict):
            return encode_message({"schema": value}, kind)
        if isinstance(value, bool):
            return encode_message({"allows": value}, kind)
        (name,) = [field.name for field in messages().fields(kind).values() if field.repeated]
        return encode_message({name: value}, kind)

    return encode_union


_SCHEMA_UNIONS = {
    f"{_EXTENSIONS}.{version}.JSONSchemaPropsOr{suffix}": (
        _decode_union(f"{_EXTENSIONS}.{version}.JSONSchemaPropsOr{suffix}"),
        _encode_union(f"{_EXTENSIONS}.{version}.JSONSchemaPropsOr{suffix}"),
    )
    for version in ("v1", "v1beta1")
    for suffix in ("Array", "Bool", "StringArray")
}


# --------------------------------------------------------------------------- writing


def encode(obj: Object) -> bytes | None:
    """An object in its envelope; None when its kind has no message."""
    api_version, kind = str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")
    group, version = GroupVersion.parse(api_version)
    name = message_of(GroupVersionKind(group, version, kind))
    if name is None:
        return None
    return envelope(api_version, kind, encode_message(obj, name))


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    head, out = bytearray(), bytearray(MAGIC)
    wire.write_bytes(head, 1, api_version.encode())
    wire.write_bytes(head, 2, kind.encode())
    wire.write_bytes(out, 1, bytes(head))
    wire.write_bytes(out, 2, raw)
    wire.write_bytes(out, 3, b"")
    wire.write_bytes(out, 4, b"")
    return bytes(out)


def list_items(gvk: GroupVersionKind) -> Callable[[Object], bytes] | None:
    """For a list kind, what makes of an object the bytes with which it stands in the list's message; None without a message."""
    name = message_of(gvk)
    if name is None:
        return None
    (field,) = [field for field in messages().fields(name).values() if field.name == "items"]

    def item(obj: Object) -> bytes:
        out = bytearray()
        _write(out, field.number, field.type, obj)
        return bytes(out)

    return item


def list_frame(api_version: str, kind: str, metadata: Object, length: int) -> tuple[bytes, bytes]:
    """What stands before and after ``length`` bytes of items in an enveloped list."""
    types, inner, out = bytearray(), bytearray(), bytearray(MAGIC)
    wire.write_bytes(types, 1, api_version.encode())
    wire.write_bytes(types, 2, kind.encode())
    wire.write_bytes(inner, 1, encode_message(metadata, _META + "ListMeta"))
    wire.write_bytes(out, 1, bytes(types))
    wire.write_tag(out, 2, wire.BYTES)
    wire.write_varint(out, len(inner) + length)
    tail = bytearray()
    wire.write_bytes(tail, 3, b"")
    wire.write_bytes(tail, 4, b"")
    return bytes(out + inner), bytes(tail)


def encode_message(obj: Object, name: str) -> bytes:
    """``obj`` as one message; members that it does not have are left out, as JSON-only values are."""
    out = bytearray()
    for field in messages().fields(name).values():
        if not field.name:
            inlined = encode_message(obj, field.type)
            if inlined:
                wire.write_bytes(out, field.number, inlined)
            continue
        value = obj.get(field.name)
        if value is None:
            continue
        if field.key_value:
            for key, item in value.items():
                entry = bytearray()
                wire.write_bytes(entry, 1, key.encode())
                _write(entry, 2, field.key_value, item)
                wire.write_bytes(out, field.number, bytes(entry))
        elif field.repeated:
            for item in value:
                _write(out, field.number, field.type, item)
        else:
            _write(out, field.number, field.type, value)
    return bytes(out)


def _write(out: bytearray, number: int, kind: str, value: Any) -> None:
    if kind in _INTEGERS or kind == "bool":
        wire.write_tag(out, number, wire.VARINT)
        wire.write_varint(out, int(value))
    elif kind == "double":
        wire.write_tag(out, number, wire.FIXED64)
        out += struct.pack("<d", float(value))
    elif kind == "string":
        wire.write_bytes(out, number, str(value).encode())
    elif kind == "bytes":
        wire.write_bytes(out, number, base64_bytes(value))
    else:
        special = SPECIAL.get(kind) or _SCHEMA_UNIONS.get(kind)
        wire.write_bytes(out, number, special[1](value) if special else encode_message(value, kind))


def watch_frame(event: str, obj: bytes) -> bytes:
    """One event of a protobuf watch: a length, then an enveloped WatchEvent around an enveloped object."""
    extension, out = bytearray(), bytearray()
    wire.write_bytes(extension, 1, obj)
    wire.write_bytes(out, 1, event.encode())
    wire.write_bytes(out, 2, bytes(extension))
    return struct.pack(">I", len(out)) + bytes(out)

"""Messages whose JSON form is not an object of their fields: times, quantities, IntOrString, raw JSON, lists in disguise."""

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from apimachinery.codecs import protobuf_wire as wire

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_META = "k8s.io.apimachinery.pkg.apis.meta.v1."
OMIT = object()
"""What a decoder returns for a value that JSON leaves out, such as the zero time."""


def decode_time(data: bytes) -> Any:
    seconds, nanos = _seconds_and_nanos(data)
    if not seconds and not nanos:
        return OMIT
    return _text(_EPOCH + timedelta(seconds=seconds), "seconds")


def decode_micro_time(data: bytes) -> Any:
    seconds, nanos = _seconds_and_nanos(data)
    if not seconds and not nanos:
        return OMIT
    return _text(_EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000), "microseconds")


def _text(when: datetime, precision: str) -> str:
    return when.isoformat(timespec=precision).replace("+00:00", "Z")  # strftime writes the year 1 as one digit


def _seconds_and_nanos(data: bytes) -> tuple[int, int]:
    found = {number: value for number, _, value in wire.fields(data) if isinstance(value, int)}
    return wire.signed(found.get(1, 0)), wire.signed(found.get(2, 0))


def encode_time(value: Any) -> bytes:
    out = bytearray()
    if value:
        elapsed = datetime.fromisoformat(str(value)) - _EPOCH
        wire.write_tag(out, 1, wire.VARINT)
        wire.write_varint(out, elapsed // timedelta(seconds=1))
        if elapsed.microseconds:
            wire.write_tag(out, 2, wire.VARINT)
            wire.write_varint(out, elapsed.microseconds * 1000)
    return bytes(out)


def decode_duration(data: bytes) -> Any:
    nanoseconds = next(
        (wire.signed(value) for number, _, value in wire.fields(data) if number == 1 and isinstance(value, int)), 0
    )
    return f"{nanoseconds / 1e9:g}s"


def _decode_text(data: bytes) -> Any:
    return next((value.decode() for number, _, value in wire.fields(data) if number == 1 and isinstance(value, bytes)), "")


def _encode_text(value: Any) -> bytes:
    out = bytearray()
    wire.write_bytes(out, 1, str(value).encode())
    return bytes(out)


def decode_int_or_string(data: bytes) -> Any:
    kind, number_value, text = 0, 0, ""
    for number, _, value in wire.fields(data):
        if number == 1 and isinstance(value, int):
            kind = value
        elif number == 2 and isinstance(value, int):
            number_value = wire.signed(value)
        elif number == 3 and isinstance(value, bytes):
            text = value.decode()
    return text if kind == 1 else number_value


def encode_int_or_string(value: Any) -> bytes:
    out = bytearray()
    wire.write_tag(out, 1, wire.VARINT)
    wire.write_varint(out, 1 if isinstance(value, str) else 0)
    if isinstance(value, str):
        wire.write_bytes(out, 3, value.encode())
    else:
        wire.write_tag(out, 2, wire.VARINT)
        wire.write_varint(out, int(value))
    return bytes(out)


def decode_raw(data: bytes) -> Any:
    """RawExtension, FieldsV1 and JSON hold JSON text."""
    raw = next((value for number, _, value in wire.fields(data) if number == 1 and isinstance(value, bytes)), b"")
    if not raw:
        return OMIT
    if raw.startswith(b"k8s\0"):
        raise ValueError("a protobuf object inside an object is not supported here; send it as JSON")
    return orjson.loads(raw)


def encode_raw(value: Any) -> bytes:
    out = bytearray()
    wire.write_bytes(out, 1, orjson.dumps(value))
    return bytes(out)


def decode_strings(data: bytes) -> Any:
    return [value.decode() for number, _, value in wire.fields(data) if number == 1 and isinstance(value, bytes)]


def encode_strings(value: Any) -> bytes:
    out = bytearray()
    for text in value:
        wire.write_bytes(out, 1, str(text).encode())
    return bytes(out)


Codec = tuple[Callable[[bytes], Any], Callable[[Any], bytes]]
_RAW: Codec = (decode_raw, encode_raw)
_STRINGS: Codec = (decode_strings, encode_strings)

SPECIAL: dict[str, Codec] = {
    _META + "Time": (decode_time, encode_time),
    _META + "MicroTime": (decode_micro_time, encode_time),
    _META + "FieldsV1": _RAW,
    _META + "Verbs": _STRINGS,
    "k8s.io.apimachinery.pkg.runtime.RawExtension": _RAW,
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.JSON": _RAW,
    "k8s.io.apimachinery.pkg.api.resource.Quantity": (_decode_text, _encode_text),
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": (decode_int_or_string, encode_int_or_string),
    **{
        f"k8s.io.api.{group}.{version}.ExtraValue": _STRINGS
        for group in ("authentication", "authorization", "certificates")
        for version in ("v1", "v1beta1")
    },
}


def base64_text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def base64_bytes(text: Any) -> bytes:
    return base64.b64decode(str(text))

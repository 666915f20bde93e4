"""An OpenAPI v2 document in gnostic's protobuf form (``openapi.v2.Document``), which kubectl before 1.27 reads for validation.

Field numbers are those of github.com/google/gnostic ``openapiv2/OpenAPIv2.proto``. Only what ``v2`` writes is encoded.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

Object = Mapping[str, Any]


def encode(document: Object) -> bytes:
    """The wire form of a document that ``v2`` built."""
    info = document["info"]
    head = _text(1, document["swagger"]) + _message(2, _text(1, info["title"]) + _text(2, info["version"]))
    return head + more(document["paths"], document["definitions"])


def more(paths: Object, definitions: Object) -> bytes:
    """Further paths and definitions: appended to an encoded document they are part of it, as protobuf merges messages."""
    items = b"".join(_message(2, _text(1, path) + _message(2, _path_item(item))) for path, item in paths.items())
    return _message(8, items) + _message(9, _named_schemas(definitions))


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _message(number: int, body: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(body)) + body


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode()) if text else b""


def _texts(number: int, texts: Iterable[str]) -> bytes:
    return b"".join(_message(number, text.encode()) for text in texts)


def _true(number: int, value: bool) -> bytes:
    return _varint(number << 3) + b"\x01" if value else b""


def _any(value: Any) -> bytes:
    """Free values travel as YAML; JSON is YAML."""
    return _text(2, orjson.dumps(value).decode())


def _extensions(number: int, body: Object) -> bytes:
    extra = ((key, value) for key, value in body.items() if key.startswith("x-"))
    return b"".join(_message(number, _text(1, key) + _message(2, _any(value))) for key, value in extra)


_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "options": 6, "head": 7, "patch": 8}


def _path_item(item: Object) -> bytes:
    operations = b"".join(_message(number, _operation(item[method])) for method, number in _METHODS.items() if method in item)
    return operations + _parameters(9, item.get("parameters", ()))


def _operation(each: Object) -> bytes:
    return b"".join(
        (
            _texts(1, each.get("tags", ())),
            _text(3, each.get("description", "")),
            _text(5, each.get("operationId", "")),
            _texts(6, each.get("produces", ())),
            _texts(7, each.get("consumes", ())),
            _parameters(8, each.get("parameters", ())),
            _message(9, b"".join(_response(code, answer) for code, answer in each["responses"].items())),
            _texts(10, each.get("schemes", ())),
            _extensions(13, each),
        )
    )


def _response(code: str, answer: Object) -> bytes:
    body = _text(1, answer.get("description", ""))
    if "schema" in answer:
        body += _message(2, _message(1, _schema(answer["schema"])))
    return _message(1, _text(1, code) + _message(2, _message(1, body)))


def _parameters(number: int, parameters: Iterable[Object]) -> bytes:
    return b"".join(_message(number, _message(1, _parameter(each))) for each in parameters)


def _parameter(each: Object) -> bytes:
    required = bool(each.get("required"))
    if each["in"] == "body":
        body = _text(2, each["name"]) + _text(3, "body") + _true(4, required) + _message(5, _schema(each["schema"]))
        return _message(1, _text(1, each.get("description", "")) + body)
    head = _true(1, required) + _text(2, each["in"]) + _text(3, each.get("description", "")) + _text(4, each["name"])
    if each["in"] == "path":
        return _message(2, _message(4, head + _text(5, each["type"]) + _true(18, bool(each.get("uniqueItems")))))
    return _message(2, _message(3, head + _text(6, each["type"]) + _true(20, bool(each.get("uniqueItems")))))


_VALIDATIONS = (  # of custom resources; the release's own definitions have none
    ("multipleOf", 6, "double"),
    ("maximum", 7, "double"),
    ("exclusiveMaximum", 8, "bool"),
    ("minimum", 9, "double"),
    ("exclusiveMinimum", 10, "bool"),
    ("maxLength", 11, "int"),
    ("minLength", 12, "int"),
    ("pattern", 13, "text"),
    ("maxItems", 14, "int"),
    ("minItems", 15, "int"),
    ("uniqueItems", 16, "bool"),
    ("maxProperties", 17, "int"),
    ("minProperties", 18, "int"),
)


def _validation(number: int, kind: str, value: Any) -> bytes:
    if kind == "text":
        return _text(number, value)
    if kind == "double":
        return _varint(number << 3 | 1) + struct.pack("<d", value)
    return _varint(number << 3) + _varint(int(value)) if value else b""


def _named_schemas(schemas: Object) -> bytes:
    return b"".join(_message(1, _text(1, name) + _message(2, _schema(schema))) for name, schema in schemas.items())


def _schema(schema: Object) -> bytes:
    parts = [_text(1, schema.get("$ref", "")), _text(2, schema.get("format", ""))]
    parts += [_text(3, schema.get("title", "")), _text(4, schema.get("description", ""))]
    if "default" in schema:
        parts.append(_message(5, _any(schema["default"])))
    parts += [_validation(number, kind, schema[name]) for name, number, kind in _VALIDATIONS if name in schema]
    parts.append(_texts(19, schema.get("required", ())))
    parts += [_message(20, _any(value)) for value in schema.get("enum", ())]
    if "additionalProperties" in schema:
        extra = schema["additionalProperties"]
        parts.append(_message(21, _true(2, extra) if isinstance(extra, bool) else _message(1, _schema(extra))))
    if "type" in schema:
        parts.append(_message(22, _text(1, schema["type"])))
    if "items" in schema:
        parts.append(_message(23, _message(1, _schema(schema["items"]))))
    if "properties" in schema:
        parts.append(_message(25, _named_schemas(schema["properties"])))
    if "example" in schema:
        parts.append(_message(30, _any(schema["example"])))
    parts.append(_extensions(31, schema))
    return b"".join(parts)

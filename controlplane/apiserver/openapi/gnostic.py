"""An OpenAPI v2 document in gnostic's protobuf form (``openapi.v2.Document``), which kubectl before 1.27 reads for validation.

Field numbers are those of github.com/google/gnostic ``openapiv2/OpenAPIv2.proto``. Only what ``v2`` writes is encoded.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

Object = Mapping[str, Any]


def encode(document: Object) -> bytes:
    """The wire form of a document that ``v2`` built."""
    info = document["info"]
    paths = b"".join(_message(2, _text(1, path) + _message(2, _path_item(item))) for path, item in document["paths"].items())
    return b"".join(
        (
            _text(1, document["swagger"]),
            _message(2, _text(1, info["title"]) + _text(2, info["version"])),
            _message(8, paths),
            _message(9, _named_schemas(document["definitions"])),
        )
    )


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


def _named_schemas(schemas: Object) -> bytes:
    return b"".join(_message(1, _text(1, name) + _message(2, _schema(schema))) for name, schema in schemas.items())


def _schema(schema: Object) -> bytes:
    parts = [_text(1, schema.get("$ref", "")), _text(2, schema.get("format", "")), _text(4, schema.get("description", ""))]
    if "default" in schema:
        parts.append(_message(5, _any(schema["default"])))
    parts.append(_texts(19, schema.get("required", ())))
    if "additionalProperties" in schema:
        extra = schema["additionalProperties"]
        parts.append(_message(21, _true(2, extra) if isinstance(extra, bool) else _message(1, _schema(extra))))
    if "type" in schema:
        parts.append(_message(22, _text(1, schema["type"])))
    if "items" in schema:
        parts.append(_message(23, _message(1, _schema(schema["items"]))))
    if "properties" in schema:
        parts.append(_message(25, _named_schemas(schema["properties"])))
    parts.append(_extensions(31, schema))
    return b"".join(parts)

"""Values as expressions see them: numbers of the schema's kind, bytes, times, fields by names that can be said.

Most values are what they are. :func:`compiled` makes a function where some are not, and nothing else.
"""

import base64
import binascii
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from controlplane.apiserver.crd.structural.node import Node
from controlplane.apiserver.crd.structural.rules.declared import escaped

Converter = Callable[[Any], Any]

_UNIT = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_NANOS = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}


def compiled(node: Node) -> Converter | None:
    """What makes of a value of ``node`` the one for expressions; None where that is the value itself."""
    if node.int_or_string:
        return None
    if node.type == "array":
        each = compiled(node.items) if node.items is not None else None
        return _of_list(each) if each is not None else None
    if node.type == "object":
        return _of_object(node)
    if node.type == "string":
        return {"byte": _bytes, "duration": _duration, "date": _time, "date-time": _time}.get(node.format)
    return {"number": _double, "integer": _int}.get(node.type)


def _of_list(each: Converter) -> Converter:
    return lambda value: [each(inner) for inner in value] if type(value) is list else value


def _of_object(node: Node) -> Converter | None:
    names = {name: said for name in node.properties if (said := escaped(name)) not in (None, name)}
    fields = {name: made for name, inner in node.properties.items() if (made := compiled(inner)) is not None}
    more = compiled(node.additional) if node.additional is not None else None
    if not names and not fields and more is None:
        return None

    def convert(value: Any) -> Any:
        if type(value) is not dict:
            return value
        found = {}
        for name, inner in value.items():
            change = fields.get(name, more)
            found[names.get(name, name)] = inner if change is None else change(inner)
        return found

    return convert


def _double(value: Any) -> Any:
    return float(value) if type(value) is int else value


def _int(value: Any) -> Any:
    return int(value) if type(value) is float and value.is_integer() else value


def _bytes(value: Any) -> Any:
    try:
        return base64.b64decode(value, validate=True) if type(value) is str else value
    except binascii.Error:
        return value


def _time(value: Any) -> Any:
    """A date is its first moment, in UTC."""
    if type(value) is not str:
        return value
    try:
        moment = datetime.fromisoformat(value if len(value) > 10 else f"{value}T00:00:00+00:00")
        made = Timestamp()
        made.FromDatetime(moment)
    except (ValueError, OverflowError):  # or in a time zone in which it is past the years that there are
        return value
    return made


def _duration(value: Any) -> Any:
    if type(value) is not str:
        return value
    nanos = sum(round(float(number) * _NANOS[unit]) for number, unit in _UNIT.findall(value))
    made = Duration()
    made.FromNanoseconds(-nanos if value.startswith("-") else nanos)
    return made

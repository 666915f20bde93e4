"""JSON as the API server reads and writes it: orjson for speed, Go's words for what is wrong, a bound on nesting.

Called by ``scheme`` (request bodies), ``storage`` (values) and ``endpoints`` (responses).
"""

import json
import re
from collections import Counter
from typing import Any

import orjson

from apimachinery import errors
from apimachinery.codecs.json_syntax import MAX_DEPTH, NO_FAULT, TOO_DEEP, explain

# whole surrogate pairs, halves of them, and all other escapes
_ESCAPES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)
_SURROGATES = re.compile("[\ud800-\udfff]")
_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_SHALLOW = 200  # with fewer brackets than this an object cannot be too deep


def decode(data: bytes) -> Any:
    """Parse one JSON value. Of duplicate keys the last wins. Raises a 400 StatusError in the words of Go's decoder."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        value = _second_try(data)
    if data.count(b"{") + data.count(b"[") > _SHALLOW and depth_exceeds(value, MAX_DEPTH):
        raise errors.bad_request(TOO_DEEP)
    return value


def _second_try(data: bytes) -> Any:
    """What orjson refuses and Go's decoder takes: halves of surrogate pairs, which become U+FFFD."""
    fault = explain(data)
    if fault != NO_FAULT:
        raise errors.bad_request(fault)
    try:
        return orjson.loads(_ESCAPES.sub(lambda found: b"\\ufffd" if found["half"] else found[0], data))
    except orjson.JSONDecodeError:
        raise errors.bad_request("json: cannot unmarshal number into Go value of type float64: value out of range") from None


def has_more_nodes(data: bytes, limit: int) -> bool:
    """Whether there are more than ``limit`` keys and values, before any is made: each costs up to a hundred bytes."""
    if _marks(data) <= limit:
        return False
    return _marks(_STRINGS.sub(b"", data)) > limit


def _marks(data: bytes) -> int:
    return sum(map(data.count, (b",", b":", b"[", b"{")))


def encode(obj: Any) -> bytes:
    """``apiVersion``, ``kind`` and ``metadata`` first, then the rest as it stands; other values are written plainly."""
    if type(obj) is dict and "kind" in obj:
        head = {key: obj[key] for key in ("apiVersion", "kind", "metadata") if key in obj}
        obj = {**head, **obj}
    try:
        return orjson.dumps(obj)
    except TypeError:
        return orjson.dumps(_representable(obj))


def _representable(value: Any) -> Any:
    """With U+FFFD for what came in a header in no character set, as Go's encoder writes it."""
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    if isinstance(value, list | tuple):
        return [_representable(item) for item in value]
    if isinstance(value, dict):
        return {_representable(key): _representable(item) for key, item in value.items()}
    return value


def is_written_as(value: Any, data: bytes) -> bool:
    """Whether ``data`` is the compact form of ``value``, as it stands; then it holds nothing that ``value`` does not."""
    return orjson.dumps(value) == data.rstrip()


def depth_exceeds(value: Any, limit: int) -> bool:
    """Level by level, so that the check itself cannot run out of stack."""
    level = [value]
    for _ in range(limit):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer if type(outer) is list else ())
            if type(inner) in (dict, list)
        ]
        if not level:
            return False
    return True


class _Repeated(dict[str, Any]):
    """An object in which keys were repeated, which, and the values that went with them."""

    repeated: tuple[str, ...] = ()
    overridden: tuple[tuple[str, Any], ...] = ()


def duplicate_keys(data: bytes) -> list[str]:
    """``duplicate field "spec.replicas"`` for each key given twice in one object. ``data`` must have passed ``decode``."""
    found = False

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal found
        obj = dict(pairs)
        if len(obj) == len(pairs):
            return obj
        found = True
        marked = _Repeated(obj)
        marked.repeated = tuple(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        marked.overridden = tuple((key, item) for key, item in pairs if item is not obj[key])
        return marked

    value = json.loads(data, object_pairs_hook=collect)
    return list(dict.fromkeys(_name_repeated(value, ""))) if found else []


def _name_repeated(value: Any, path: str) -> list[str]:
    if isinstance(value, list):
        return [text for index, item in enumerate(value) for text in _name_repeated(item, f"{path}[{index}]")]
    if not isinstance(value, dict):
        return []
    prefix = f"{path}." if path else ""
    own = [f'duplicate field "{prefix}{key}"' for key in getattr(value, "repeated", ())]
    within = [*getattr(value, "overridden", ()), *value.items()]
    return own + [text for key, item in within for text in _name_repeated(item, prefix + key)]

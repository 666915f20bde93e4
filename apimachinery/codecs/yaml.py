"""YAML as Kubernetes reads it: the scalar rules of its Go library, JSON's data model, and bounds on aliases and depth.

Called by ``scheme`` for bodies sent as ``application/yaml`` and by the bootstrap of static manifests. PyYAML's own rules are not
those: it reads ``12:30:45`` as a number in base 60 and dates as objects; here both are strings, and ``012`` is octal.
"""

import base64
import re
from typing import Any

import yaml

from apimachinery import errors

MAX_DEPTH = 250
_MAX_FROM_ALIASES = 400_000
_QUIET = 1_000  # below so many nodes aliases are nobody's business

_TRUE = frozenset({"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
_FALSE = frozenset({"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?").fullmatch
_INT = re.compile(r"([-+]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)").fullmatch
_INFINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)").fullmatch

_BETWEEN_NODES = (b",", b":", b"[", b"{", b"\n", b"- ", b"? ")  # no two nodes are without one of these between them
_PLAIN_TAG = "plain"
_BY_RULE = frozenset({_PLAIN_TAG, *(f"tag:yaml.org,2002:{kind}" for kind in ("int", "float", "bool", "null"))})

_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_SafeLoader):  # type: ignore[misc]
    """Only composes nodes. Scalars without a tag get a mark of their own instead of PyYAML's guess of a type."""

    def resolve(self, kind: type[yaml.Node], value: Any, implicit: Any) -> str:
        if kind is yaml.ScalarNode and implicit[0]:
            return _PLAIN_TAG
        suffix = "str" if kind is yaml.ScalarNode else "seq" if kind is yaml.SequenceNode else "map"
        return f"tag:yaml.org,2002:{suffix}"


def has_more_nodes(data: bytes, limit: int) -> bool:
    """Whether there are more than ``limit`` keys and values, before any is made: each costs hundreds of bytes."""
    if sum(map(data.count, _BETWEEN_NODES)) + 2 <= limit:
        return False
    loader, found = _Loader(data), 0
    try:
        while found <= limit and loader.check_event():
            event = loader.get_event()
            if isinstance(event, yaml.DocumentEndEvent):  # nobody reads what follows
                break
            found += isinstance(event, yaml.NodeEvent)
    except (yaml.YAMLError, RecursionError, ValueError):
        return False  # the decoder will say what is wrong
    finally:
        loader.dispose()
    return found > limit


def decode(data: bytes) -> Any:
    """The first document, as the value its JSON form would give. Raises a 400 StatusError that names the line."""
    return _decode(data)[0]


def decode_strict(data: bytes) -> tuple[Any, list[str]]:
    """As ``decode``, with a text for every key that a mapping repeats."""
    return _decode(data)


def _decode(data: bytes) -> tuple[Any, list[str]]:
    try:
        loader = _Loader(data)
        try:
            node = loader.get_node() if loader.check_node() else None
        finally:
            loader.dispose()
        builder = _Builder()
        return (builder.build(node, 0) if node is not None else None), builder.repeated
    except RecursionError:
        raise errors.bad_request("yaml: exceeded max depth") from None
    except (yaml.YAMLError, ValueError) as problem:
        raise errors.bad_request(f"yaml: {_complaint(problem)}") from None


def _complaint(problem: Exception) -> str:
    mark = getattr(problem, "problem_mark", None)
    if isinstance(problem, yaml.MarkedYAMLError) and mark is not None:
        return f"line {mark.line + 1}: {problem.problem}"
    return " ".join(str(problem).split())


class _Builder:
    """Turns nodes into values. An alias is the same node met again; each visit is counted, as expansion is what costs."""

    def __init__(self) -> None:
        self.repeated: list[str] = []
        self.visited = 0
        self.by_alias = 0
        self.seen: set[int] = set()
        self.open: set[int] = set()

    def build(self, node: yaml.Node, depth: int, aliased: bool = False) -> Any:
        self.count(node, depth, aliased)
        if isinstance(node, yaml.ScalarNode):
            return scalar(node)
        mark = id(node)
        if mark in self.open:
            raise ValueError("anchor value contains itself")
        aliased = aliased or mark in self.seen
        self.seen.add(mark)
        self.open.add(mark)
        if isinstance(node, yaml.SequenceNode):
            value: Any = [self.build(item, depth + 1, aliased) for item in node.value]
        else:
            value = self.mapping(node, depth, aliased)
        self.open.discard(mark)
        return value

    def count(self, node: yaml.Node, depth: int, aliased: bool) -> None:
        if depth > MAX_DEPTH:
            raise ValueError("exceeded max depth")
        self.visited += 1
        self.by_alias += aliased
        if self.by_alias > 100 and self.visited > _QUIET:
            excess = self.by_alias / self.visited
            if excess > 0.99 or self.by_alias > _MAX_FROM_ALIASES:
                raise ValueError("document contains excessive aliasing")

    def mapping(self, node: yaml.Node, depth: int, aliased: bool) -> dict[str, Any]:
        result: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.value == "<<" and key_node.tag in (_PLAIN_TAG, "tag:yaml.org,2002:merge"):
                merged |= self.merge(value_node, depth, aliased)
                continue
            key = _key(key_node)
            if key in result:
                self.repeated.append(f'line {key_node.start_mark.line + 1}: key "{key}" already set in map')
            result[key] = self.build(value_node, depth + 1, aliased)
        return {**merged, **result} if merged else result

    def merge(self, node: yaml.Node, depth: int, aliased: bool) -> dict[str, Any]:
        value = self.build(node, depth + 1, aliased)
        sources = value if isinstance(value, list) else [value]
        if not all(isinstance(source, dict) for source in sources):
            raise ValueError("map merge requires map or sequence of maps as the value")
        result: dict[str, Any] = {}
        for source in reversed(sources):
            result |= source
        return result


def _key(node: yaml.Node) -> str:
    """JSON has only strings as keys; upstream writes numbers and booleans out."""
    if not isinstance(node, yaml.ScalarNode):
        raise ValueError(f"line {node.start_mark.line + 1}: mapping keys must be scalars")
    value = scalar(node)
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    return str(value)


def scalar(node: yaml.ScalarNode) -> Any:
    """The value of a scalar: quoted ones and those tagged ``!!str`` are strings, plain ones follow the Go library's rules."""
    if node.tag in _BY_RULE:
        return plain(node.value)
    if node.tag == "tag:yaml.org,2002:binary":
        return base64.b64decode(node.value).decode("utf-8")
    return node.value


def plain(text: str) -> Any:
    """A plain scalar. Raises ValueError for infinities and NaN, which JSON cannot hold."""
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    first = text[0]
    if not (first.isdigit() or first in "+-."):
        return text
    if _INFINITE(text):
        raise ValueError(f"json: unsupported value: {text.replace('.', '').replace('inf', 'Inf')}")
    number = text.replace("_", "")
    match = _INT(number)
    if match:
        value = _integer(match[2]) * (-1 if match[1] == "-" else 1)
        if -(2**63) <= value < 2**64:
            return value
        return float(value)
    return _float(float(number)) if _FLOAT(number) else text


def _float(value: float) -> float | int:
    """JSON writes 3.0 as 3, so ``replicas: 3.0`` is an integer."""
    return int(value) if value.is_integer() and abs(value) < 1e21 else value


def _integer(digits: str) -> int:
    """Go's base-prefixed integers: a leading zero alone means octal."""
    if len(digits) > 1 and digits[0] == "0":
        bare = digits.lower()
        base = {"x": 16, "b": 2, "o": 8}.get(bare[1])
        return int(bare[2:], base) if base else int(bare, 8)
    return int(digits)

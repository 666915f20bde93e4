"""Does a value fulfil its schema? The slow walk that finds the words, upstream's (``kube-openapi/pkg/validation``).

``fast`` answers first, and this runs for values that are refused. It follows upstream's validators one by one: of several
alternatives the one that matches most is told of, and how much matches is counted as there (``Result.matches``). On an update
what is as it was is not complained of (``old``; KEP-4008).
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from apimachinery import fieldpath
from apimachinery.cel.library import regex
from apimachinery.fieldpath import FieldError
from controlplane.apiserver.crd.structural import correlation, formats, go
from controlplane.apiserver.crd.structural.correlation import ABSENT
from controlplane.apiserver.crd.structural.node import Node

NOWHERE = "<nil>"
"""The field of what is said of no field: how Go prints a path that is not there."""
MANY = 10_000
"""So many errors are enough to tell of one list or map."""
_LONG = 1000
_FORMATS_OF = {"integer": ("int32", "int64"), "number": ("float", "double")}


@dataclass(slots=True)
class Result:
    errors: list[FieldError] = field(default_factory=list)
    matches: int = 0
    _held: dict[tuple[str, str, str], list[FieldError]] = field(default_factory=dict)

    def add(self, error: FieldError) -> None:
        """The same words count once. Quick, for a list may be wrong in each of a million elements."""
        alike = self._held.setdefault((error.kind, error.field, error.detail), [])
        if error not in alike:
            alike.append(error)
            self.errors.append(error)

    def merge(self, other: "Result | None") -> None:
        if other is not None:
            for error in other.errors:
                self.add(error)
            self.matches += other.matches


def problems(value: Any, node: Node, path: str, old: Any = ABSENT) -> list[FieldError]:
    """What is wrong with ``value``. ``path`` is its own; ``old`` what it was before, where there was something."""
    return _validate(value, node, path, old).errors


def is_valid(value: Any, node: Node) -> bool:
    return not _validate(value, node, "", ABSENT).errors


def _validate(value: Any, node: Node, path: str, old: Any, *, ratchet: bool = True) -> Result:
    result = Result()
    if value is None:
        result.merge(_type(value, node, path))
        result.merge(_enum(value, node, path))
    else:
        for applies, check in _CHECKS:
            if applies(value, node):
                result.merge(check(value, node, path, old))
                result.matches += 1
        result.matches += 1
    if ratchet and result.errors and old is not ABSENT and correlation.unchanged(value, old, node):
        return Result(matches=result.matches)
    return result


# One rule of a schema each


def _type(value: Any, node: Node, path: str, _: Any = None) -> Result:
    types, name = node.types, format_of(node)
    if value is None:
        refused = bool(types) and not node.nullable
        return _one(_wrong_type(path, ",".join(types), "null")) if refused else Result(matches=1)
    found, width = _json_type(value)
    fits = found in types or (found == "integer" and "number" in types)
    fits = fits or (found == "number" and "integer" in types and float(value).is_integer())
    if name and not isinstance(value, str | list) and not fits and width != name:
        return _one(_wrong_type(path, name, width))
    is_number = "number" in types or "integer" in types
    if name and not is_number and isinstance(value, str | list):
        return Result(matches=1)
    return Result(matches=1) if fits else _one(_wrong_type(path, ",".join(types), found))


def _json_type(value: Any) -> tuple[str, str]:
    """The type, and the format that goes with it in Go."""
    if isinstance(value, bool):
        return "boolean", ""
    if isinstance(value, int) and go.INT64_MIN <= value <= go.INT64_MAX:
        return "integer", "int64"
    if isinstance(value, int | float):
        return "number", "float64"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object", ""


def format_of(node: Node) -> str:
    """The format, where it means something for the type."""
    if node.type in ("", "string"):
        return node.format if formats.is_known(node.format) else ""
    return node.format if node.format in _FORMATS_OF.get(node.type, ()) else ""


def _wrong_type(path: str, wanted: str, found: str) -> FieldError:
    shown = f": {json.dumps(found)}"
    return fieldpath.type_invalid(_place(path), found, f"{path} in body must be of type {wanted}{shown}")


def _text(value: str, node: Node, path: str, _: Any) -> Result | None:
    """The first that is wrong of length and pattern."""
    if node.max_length is not None and len(value) > node.max_length:
        return _one(fieldpath.too_long(_place(path), node.max_length))
    if node.min_length is not None and len(value) < node.min_length:
        return _wrong(path, value, f"should be at least {node.min_length} chars long")
    if node.pattern and not matches(node.pattern, value):
        return _wrong(path, value, f"should match '{node.pattern}'")
    return None


def matches(pattern: str, text: str) -> bool:
    """A pattern that is none matches nothing."""
    try:
        return regex.compiled(pattern).search(text) is not None
    except ValueError:
        return False


def _format(value: str, node: Node, path: str, _: Any) -> Result | None:
    check = formats.checker(node.format)
    if check is None or check(value):
        return None
    return _one(fieldpath.type_invalid(_place(path), value, f"{path} in body must be of type {node.format}: {_quoted(value)}"))


def _number(value: float, node: Node, path: str, _: Any) -> Result:
    result = Result(matches=1)
    whole = _json_type(value)[0] == "integer"
    if node.multiple_of is not None and (text := multiple_problem(value, node.multiple_of, whole=whole)):
        result.add(_error(path, value, text))
    for limit, exclusive, sign, than in (
        (node.minimum, node.exclusive_minimum, -1, "greater"),
        (node.maximum, node.exclusive_maximum, 1, "less"),
    ):
        if limit is None:
            continue
        bound = int(limit) if whole else limit
        over = (value - bound) * sign
        if over > 0 or (exclusive and over == 0):
            words = f"should be {than} than {'' if exclusive else 'or equal to '}{bound if whole else go.number(bound)}"
            result.add(_error(path, value, words))
    return result


def multiple_problem(value: float, factor: float, *, whole: bool) -> str:
    """What is wrong with a number that is to be a multiple of ``factor``; integers are divided as such."""
    if whole and int(factor):
        divisor = int(factor)
        return "" if value % divisor == 0 else f"should be a multiple of {divisor}"
    quotient = value / factor if factor >= 1 else 1 / factor * value if factor else float("nan")
    nearest = round(quotient) if quotient == quotient and abs(quotient) != float("inf") else 0
    difference = abs(quotient - nearest)
    if quotient == nearest or (quotient == quotient and difference < 1e-9 * max(1.0, abs(quotient))):
        return ""
    return f"should be a multiple of {go.number(factor)}"


def _list(value: list[Any], node: Node, path: str, old: Any) -> Result:
    result = Result()
    if node.items is not None:
        before, passes = correlation.elements(old, node), _passes(node.items, len(value))
        for position, each in enumerate(value):
            if passes is not None and passes(each):
                continue
            if len(result.errors) >= MANY:
                break
            result.merge(_validate(each, node.items, f"{path}[{position}]", before(each)))
    if node.min_items is not None and len(value) < node.min_items:
        result.add(_error(path, len(value), f"should have at least {node.min_items} items"))
    if node.max_items is not None and len(value) > node.max_items:
        result.add(fieldpath.too_many(_place(path), len(value), node.max_items))
    if node.unique_items and any(go.same(one, other) for at, one in enumerate(value) for other in value[:at]):
        result.add(_error(path, "", "shouldn't contain duplicates"))
    result.matches += 1
    return result


def _passes(node: Node | None, count: int) -> Callable[[Any], bool] | None:
    """The quick yes, for parts that are many: an object of megabytes with one wrong element is no work for the slow walk."""
    return node.quick if node is not None and count > _LONG else None


def _enum(value: Any, node: Node, path: str, _: Any = None) -> Result | None:
    if not node.enum or any(is_choice(value, choice) for choice in node.enum):
        return None
    choices = [one if isinstance(one, str) else json.dumps(go.ordered(one), separators=(",", ":")) for one in node.enum]
    return _one(fieldpath.not_supported(_place(path), "null" if value is None else value, choices))


def is_choice(value: Any, choice: Any) -> bool:
    """Numbers are compared as the kind of number that the schema says."""
    if value is None or choice is None:
        return False
    if type(value) in (int, float) and type(choice) in (int, float):
        return bool((int(value) if type(choice) is int else float(value)) == choice)
    return go.same(value, choice)


def _object(value: dict[str, Any], node: Node, path: str, old: Any) -> Result:
    count = len(value)
    if node.min_properties is not None and count < node.min_properties:
        return _wrong(path, count, f"should have at least {node.min_properties} properties")
    if node.max_properties is not None and count > node.max_properties:
        return _one(fieldpath.too_many(_place(path), count, node.max_properties))
    result = Result()
    prefix = f"{path}." if path else ""
    passes = _passes(node.additional, count)
    for key, inner in value.items():
        if len(result.errors) >= MANY:
            break
        if key not in node.properties:
            if node.additional is not None and not (passes is not None and passes(inner)):
                result.merge(_validate(inner, node.additional, prefix + key, correlation.entry(old, key)))
            elif node.additional is None and node.additional_allowed is False:
                words = f"{path}.{key} in body is a forbidden property"
                result.add(fieldpath.invalid(_place(path), key, words))
    for key, schema in node.properties.items():
        if key in value:
            result.merge(_validate(value[key], schema, prefix + key, correlation.entry(old, key)))
    for key in node.required:
        if key not in value:
            result.add(fieldpath.required(prefix + key))
    return result


def _combined(value: Any, node: Node, path: str, old: Any) -> Result:
    """``anyOf``, ``oneOf``, ``allOf`` and ``not``, which speak of no field."""
    result = Result(matches=1)
    if node.any_of:
        best = _best(value, node.any_of, path, old)
        if best.errors:
            result.add(_of_none(path, "must validate at least one schema (anyOf)"))
        result.merge(best)
    if node.one_of:
        tried = [_validate(value, one, path, old, ratchet=False) for one in node.one_of]
        valid = [one for one in tried if not one.errors]
        if len(valid) == 1:
            result.merge(valid[0])
        else:
            told = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
            result.add(_of_none(path, f"must validate one and only one schema (oneOf). {told}"))
            if not valid:
                result.merge(max(tried, key=lambda one: one.matches))
    if node.all_of:
        tried = [_validate(value, one, path, old, ratchet=False) for one in node.all_of]
        for one in tried:
            result.merge(one)
        if any(one.errors for one in tried):
            none = "" if any(not one.errors for one in tried) else ". None validated"
            result.add(_of_none(path, f"must validate all the schemas (allOf){none}"))
    if node.not_ is not None and not _validate(value, node.not_, path, old, ratchet=False).errors:
        result.add(_of_none(path, "must not validate the schema (not)"))
    return result


def _best(value: Any, alternatives: tuple[Node, ...], path: str, old: Any) -> Result:
    """The first that is fulfilled, or the one of which most is."""
    best: Result | None = None
    for one in alternatives:
        tried = _validate(value, one, path, old, ratchet=False)
        if not tried.errors:
            return tried
        if best is None or tried.matches > best.matches:
            best = tried
    assert best is not None
    return best


_Check = Callable[[Any, Node, str, Any], Result | None]
_CHECKS: tuple[tuple[Callable[[Any, Node], bool], _Check], ...] = (
    (lambda _, node: bool(node.types or format_of(node)), _type),
    (lambda _, node: True, _combined),
    (lambda value, _: isinstance(value, str), _text),
    (lambda value, node: isinstance(value, str) and bool(format_of(node)), _format),
    (lambda value, _: isinstance(value, int | float) and not isinstance(value, bool), _number),
    (lambda value, _: isinstance(value, list), _list),
    (lambda _, node: True, _enum),
    (lambda value, _: isinstance(value, dict), _object),
)


# Words


def _place(path: str) -> str:
    return path or NOWHERE


def _one(error: FieldError) -> Result:
    result = Result()
    result.add(error)
    return result


def _error(path: str, value: Any, words: str) -> FieldError:
    return fieldpath.invalid(_place(path), _shown(value), f"{path} in body {words}")


def _wrong(path: str, value: Any, words: str) -> Result:
    return _one(_error(path, value, words))


def _of_none(path: str, words: str) -> FieldError:
    return fieldpath.invalid(NOWHERE, "", f"{_quoted(path)} {words}")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _shown(value: Any) -> Any:
    """A whole float is shown as Go shows it, without a fraction."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e21 else value

"""JSONPath as Kubernetes writes it: ``.status.conditions[?(@.type=="Ready")].status``. For columns and selectable fields.

The dialect is that of k8s.io/client-go ``util/jsonpath``, less its templates: one path without braces, compiled once. Keys that
are missing give nothing; anything else that does not fit raises PathError, which a table shows as an empty cell.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

Values = list[Any]
Step = Callable[[Values], Values]


class PathError(ValueError):
    """The text is no path, or the path does not fit the value."""


_NAME = re.compile(r"(?:[^\\.\[\]\s{}]|\\.)+")
_INDEX = re.compile(r"-?\d+")
_SLICE = re.compile(r"(-?\d*):(-?\d*)(?::(-?\d*))?")
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\"")
_FILTER = re.compile(r"\?\((.*)\)", re.DOTALL)
_OPERATOR = re.compile(r"==|!=|<=|>=|<|>")
_LONGEST = 4096  # characters of a path


class JSONPath:
    """A compiled path."""

    def __init__(self, text: str) -> None:
        """Raises PathError."""
        if len(text) > _LONGEST:
            raise PathError(f"a path of more than {_LONGEST} characters")
        self.text = text
        self._steps = tuple(_steps(text.strip().removeprefix("$")))

    def find(self, value: Any) -> Values:
        """Everything the path leads to. Raises PathError where it meets a value of another shape."""
        found = [value]
        for step in self._steps:
            found = step(found)
        return found


def _steps(text: str) -> Iterator[Step]:
    at = 0
    while at < len(text):
        if text[at] == "[":
            end = _closing(text, at)
            yield _bracket(text[at + 1 : end].strip())
            at = end + 1
        elif text.startswith("..", at):
            yield _descend
            at += 1 if text.startswith("...", at) or not text.startswith("[", at + 2) else 2
        elif text[at] == ".":
            at += 1
            if text.startswith("*", at):
                yield _every
                at += 1
            elif at < len(text) and text[at] != "[":
                at, name = _name(text, at)
                yield _member(name)
        else:
            at, name = _name(text, at)
            yield _member(name)


def _name(text: str, at: int) -> tuple[int, str]:
    match = _NAME.match(text, at)
    if match is None:
        raise PathError(f"unrecognized character in action: {text[at]!r}" if at < len(text) else "a path must not end here")
    return match.end(), re.sub(r"\\(.)", r"\1", match[0])


def _closing(text: str, start: int) -> int:
    """Where the bracket that opens at ``start`` ends; quoted text does not count."""
    depth, at = 0, start
    while at < len(text):
        if text[at] in "'\"":
            quoted = _QUOTED.match(text, at)
            if quoted is None:
                raise PathError("unterminated quoted string")
            at = quoted.end()
            continue
        depth += (text[at] == "[") - (text[at] == "]")
        if not depth:
            return at
        at += 1
    raise PathError("unterminated array")


def _bracket(inner: str) -> Step:
    if inner == "*":
        return _every
    if filtering := _FILTER.fullmatch(inner):
        return _filter(filtering[1].strip())
    if quoted := _QUOTED.fullmatch(inner):
        return _member(_unquoted(quoted))
    if _INDEX.fullmatch(inner):
        return _items(slice(int(inner), int(inner) + 1 if int(inner) != -1 else None), one=True)
    if sliced := _SLICE.fullmatch(inner):
        first, last, step = (int(part) if part else None for part in sliced.groups())
        if step is not None and step <= 0:
            raise PathError("step must be > 0")
        return _items(slice(first, last, step))
    parts = [part.strip() for part in inner.split(",")]
    if len(parts) > 1:
        members = [_bracket(part) for part in parts]
        return lambda values: [found for value in values for member in members for found in member([value])]
    raise PathError(f"invalid array index {inner}")


def _unquoted(match: re.Match[str]) -> str:
    return re.sub(r"\\(.)", r"\1", match[1] if match[1] is not None else match[2])


def _member(name: str) -> Step:
    return lambda values: [value[name] for value in values if isinstance(value, dict) and value.get(name) is not None]


def _items(wanted: slice, *, one: bool = False) -> Step:
    def step(values: Values) -> Values:
        found: Values = []
        for value in values:
            if not isinstance(value, list):
                raise PathError("not an array or slice")
            taken = value[wanted]
            if one and not taken:
                raise PathError(f"array index out of bounds: index {wanted.start}, length {len(value)}")
            found += taken
        return found

    return step


def _every(values: Values) -> Values:
    found: Values = []
    for value in values:
        if isinstance(value, dict):
            found += value.values()
        elif isinstance(value, list):
            found += value
    return found


def _descend(values: Values) -> Values:
    """The values and all that is in them."""
    found: Values = []
    for value in values:
        found.append(value)
        found += _descend(_every([value]))
    return found


def _filter(text: str) -> Step:
    operator = next((match for match in _OPERATOR.finditer(text) if not _is_quoted(text, match.start())), None)
    if operator is None:
        exists = _operand(text)
        return lambda values: [item for value in values for item in _array(value) if exists(item)]
    left, right = _operand(text[: operator.start()].strip()), _operand(text[operator.end() :].strip())
    compare = _COMPARE[operator[0]]

    def matches(item: Any) -> bool:
        mine, wanted = left(item), right(item)
        if not mine or not wanted:
            return False
        if len(mine) > 1 or len(wanted) > 1:
            raise PathError("can only compare one element at a time")
        return compare(mine[0], wanted[0])

    return lambda values: [item for value in values for item in _array(value) if matches(item)]


def _is_quoted(text: str, at: int) -> bool:
    return any(match.start() < at < match.end() for match in _QUOTED.finditer(text))


def _array(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise PathError("not an array or slice and cannot be filtered")
    return value


def _operand(text: str) -> Callable[[Any], Values]:
    """A side of a comparison: what a path finds in the item, or a literal."""
    if text.startswith("@"):
        return JSONPath(text[1:]).find
    if quoted := _QUOTED.fullmatch(text):
        literal: Any = _unquoted(quoted)
    elif text in ("true", "false"):
        literal = text == "true"
    else:
        try:
            literal = int(text) if _INDEX.fullmatch(text) else float(text)
        except ValueError:
            raise PathError(f"unrecognized filter operand {text!r}") from None
    return lambda item: [literal]


def _same_kind(left: Any, right: Any) -> None:
    """Go compares no text with a number, nor a truth value with either."""
    kinds = [str if isinstance(one, str) else bool if isinstance(one, bool) else type(one) for one in (left, right)]
    if not set(kinds) <= {int, float} and kinds[0] is not kinds[1]:
        raise PathError("incompatible types for comparison")


def _comparison(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(left: Any, right: Any) -> bool:
        _same_kind(left, right)
        return test(left, right)

    return compare


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": _comparison(lambda left, right: bool(left == right)),
    "!=": _comparison(lambda left, right: bool(left != right)),
    "<": _comparison(lambda left, right: bool(left < right)),
    ">": _comparison(lambda left, right: bool(left > right)),
    "<=": _comparison(lambda left, right: bool(left <= right)),
    ">=": _comparison(lambda left, right: bool(left >= right)),
}

"""Label selectors: the text form of queries and the structured form inside objects, both matched against labels.

Used by list and watch, by every controller that owns pods, and by kubectl's ``-l``. Grammar, order and error texts
follow k8s.io/apimachinery ``pkg/labels``.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from apimachinery import names

Labels = Mapping[str, str]

_INTEGER_RE = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True, slots=True)
class Requirement:
    """``operator`` is one of ``=  == != in notin exists ! gt lt``; ``values`` are sorted."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        value = labels.get(self.key)
        if self.operator in ("=", "==", "in"):
            return value is not None and value in self.values
        if self.operator in ("!=", "notin"):
            return value is None or value not in self.values
        if self.operator == "exists":
            return value is not None
        if self.operator == "!":
            return value is None
        if value is None or not _INTEGER_RE.fullmatch(value):
            return False
        return int(value) > int(self.values[0]) if self.operator == "gt" else int(value) < int(self.values[0])

    def __str__(self) -> str:
        if self.operator == "exists":
            return self.key
        if self.operator == "!":
            return f"!{self.key}"
        if self.operator in ("in", "notin"):
            return f"{self.key} {self.operator} ({','.join(self.values)})"
        sign = {"gt": ">", "lt": "<"}.get(self.operator, self.operator)
        return f"{self.key}{sign}{self.values[0]}"


@dataclass(frozen=True, slots=True)
class Selector:
    """All requirements must hold. ``nothing`` matches no labels at all, whatever the requirements."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    @property
    def empty(self) -> bool:
        """Whether it matches everything."""
        return not self.requirements and not self.nothing

    def matches(self, labels: Labels | None) -> bool:
        if self.nothing:
            return False
        held = labels or {}
        return all(requirement.matches(held) for requirement in self.requirements)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


EVERYTHING = Selector()
NOTHING = Selector(nothing=True)


def requirement(key: str, operator: str, values: Iterable[str] = ()) -> Requirement:
    """A checked requirement. Raises ValueError with upstream's text."""
    listed = tuple(sorted(set(values)))
    problems = _key_problems(key)
    if operator in ("in", "notin"):
        if not listed:
            problems.append(f"values: Invalid value: {_shown(listed)}: for 'in', 'notin' operators, values set can't be empty")
    elif operator in ("=", "==", "!="):
        if len(listed) != 1:
            problems.append(f"values: Invalid value: {_shown(listed)}: exact-match compatibility requires one single value")
    elif operator in ("exists", "!"):
        if listed:
            problems.append(f"values: Invalid value: {_shown(listed)}: values set must be empty for exists and does not exist")
    elif operator in ("gt", "lt"):
        if len(listed) != 1:
            problems.append(f"values: Invalid value: {_shown(listed)}: for 'Gt', 'Lt' operators, exactly one value is required")
        problems += [
            f"values[{position}]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must be an integer"
            for position, value in enumerate(listed)
            if not _INTEGER_RE.fullmatch(value)
        ]
    else:
        problems.append(f'operator: Unsupported value: "{operator}"')
    for position, value in enumerate(listed):
        wrong = names.is_label_value(value)
        if wrong:
            problems.append(f'values[{position}][{key}]: Invalid value: "{value}": {"; ".join(wrong)}')
    if problems:
        raise ValueError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return Requirement(key, operator, listed)


def _key_problems(key: str) -> list[str]:
    wrong = names.is_qualified_name(key)
    return [f'key: Invalid value: "{key}": {"; ".join(wrong)}'] if wrong else []


def _shown(values: tuple[str, ...]) -> str:
    return "[" + ",".join(f'"{value}"' for value in values) + "]"


# --------------------------------------------------------------------------- structured selectors

_STRUCTURED = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


def from_map(labels: Labels | None) -> Selector:
    """A selector of equalities, such as ``spec.selector`` of a Service."""
    pairs = sorted((labels or {}).items())
    return Selector(tuple(Requirement(key, "=", (value,)) for key, value in pairs))


def from_label_selector(selector: Mapping[str, Any] | None) -> Selector:
    """A ``metav1.LabelSelector``: None matches nothing, an empty one everything. Raises ValueError."""
    if selector is None:
        return NOTHING
    requirements = [requirement(key, "=", (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        operator = _STRUCTURED.get(expression.get("operator", ""))
        if operator is None:
            raise ValueError(f'"{expression.get("operator", "")}" is not a valid label selector operator')
        requirements.append(requirement(expression.get("key", ""), operator, expression.get("values") or ()))
    return Selector(tuple(sorted(requirements, key=lambda one: one.key)))


# --------------------------------------------------------------------------- the text form

_TOKEN_RE = re.compile(r"\s*(==|!=|[=!<>(),]|[^\s=!<>(),]+|$)")
_SYMBOLS = frozenset(("=", "==", "!=", "!", "<", ">", "(", ")", ","))
_OPERATORS = {"=": "=", "==": "==", "!=": "!=", "in": "in", "notin": "notin", ">": "gt", "<": "lt"}
_EXPECTED_OPERATORS = "in, notin, =, ==, !=, gt, lt"


class _Tokens:
    """The words and symbols of a selector; an empty string is its end."""

    def __init__(self, text: str) -> None:
        self._tokens = [match[1] for match in _TOKEN_RE.finditer(text)]
        self._position = 0

    def peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self._position += 1
        return token


def _is_word(token: str) -> bool:
    return token != "" and token not in _SYMBOLS


def parse(text: str) -> Selector:
    """Read ``a=b,c in (x,y),!d,e>1``. Raises ValueError with upstream's text."""
    tokens = _Tokens(text)
    requirements: list[Requirement] = []
    while True:
        word = tokens.peek()
        if word == "":
            break
        if not _is_word(word) and word != "!":
            raise ValueError(f"found '{word}', expected: !, identifier, or 'end of string'")
        try:
            requirements.append(_parse_requirement(tokens))
        except ValueError as error:
            raise ValueError(f"unable to parse requirement: {error}") from None
        separator = tokens.take()
        if separator == "":
            break
        if separator != ",":
            raise ValueError(f"found '{separator}', expected: ',' or 'end of string'")
        following = tokens.peek()
        if not _is_word(following) and following != "!":
            raise ValueError(f"found '{following}', expected: identifier after ','")
    return Selector(tuple(sorted(requirements, key=lambda one: one.key)))


def _parse_requirement(tokens: _Tokens) -> Requirement:
    key = tokens.take()
    absent = key == "!"
    if absent:
        key = tokens.take()
    if not _is_word(key):
        raise ValueError(f"found '{key}', expected: identifier")
    if wrong := names.is_qualified_name(key):
        # upstream's parser has no path to name
        raise ValueError(f'<nil>: Invalid value: "{key}": {"; ".join(wrong)}')
    if absent:
        return requirement(key, "!")
    if tokens.peek() in ("", ","):
        return requirement(key, "exists")
    sign = tokens.take()
    operator = _OPERATORS.get(sign)
    if operator is None:
        raise ValueError(f"found '{sign}', expected: {_EXPECTED_OPERATORS}")
    return requirement(key, operator, _parse_set(tokens) if operator in ("in", "notin") else _parse_exact(tokens))


def _parse_exact(tokens: _Tokens) -> list[str]:
    token = tokens.peek()
    if token in ("", ","):
        return [""]
    if not _is_word(token):
        raise ValueError(f"found '{token}', expected: identifier")
    return [tokens.take()]


def _parse_set(tokens: _Tokens) -> list[str]:
    """``(a,b)``; a missing word, as in ``()`` or ``(a,)``, stands for the empty value."""
    opening = tokens.take()
    if opening != "(":
        raise ValueError(f"found '{opening}' expected: '('")
    first = tokens.peek()
    if first == ")":
        tokens.take()
        return [""]
    if first != "," and not _is_word(first):
        raise ValueError(f"found '{first}', expected: ',', ')' or identifier")
    values: list[str] = []
    while True:
        word = _is_word(tokens.peek())
        values.append(tokens.take() if word else "")
        separator = tokens.take()
        if separator == ")":
            return values
        if separator != ",":
            wanted = "',' or ')'" if word else "',', or identifier"
            raise ValueError(f"found '{separator}', expected: {wanted}")

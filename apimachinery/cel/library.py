"""Kubernetes' own functions: lists, regular expressions, sets (``k8s.io/apiserver/pkg/cel/library``).

Strings, optionals, ``cel.bind`` and base64 come with the library. Regular expressions are RE2, linear in the text, as upstream's.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from cel_expr_python import cel

_TYPE, _DECLARATION, _OVERLOAD = cel.Type, cel.FunctionDecl, cel.Overload
_MOST_GROUPS = 1000


def functions() -> list[Any]:
    """Declarations with their implementations, for an environment."""
    return [*_lists(), *_expressions(), *_sets()]


def _lists() -> Iterator[Any]:
    every = _TYPE.List(_TYPE.DYN)
    yield _member("isSorted", "list_is_sorted", _TYPE.BOOL, [every], _is_sorted)
    for name, function in (("min", min), ("max", max)):
        yield _member(name, f"list_{name}", _TYPE.DYN, [every], _not_empty(name, function))
    yield _member("sum", "list_sum", _TYPE.DYN, [every], sum)


def _expressions() -> Iterator[Any]:
    text = _TYPE.STRING
    yield _member("find", "string_find_string", text, [text, text], _find)
    overloads = [
        _OVERLOAD("string_find_all", return_type=_TYPE.List(text), parameters=[text, text], is_member=True, impl=_find_all),
        _OVERLOAD(
            "string_find_all_limit",
            return_type=_TYPE.List(text),
            parameters=[text, text, _TYPE.INT],
            is_member=True,
            impl=_find_all,
        ),
    ]
    yield _DECLARATION("findAll", overloads)


def _sets() -> Iterator[Any]:
    every = _TYPE.List(_TYPE.DYN)
    tests: dict[str, Callable[[list[Any], list[Any]], bool]] = {
        "contains": lambda whole, part: all(each in whole for each in part),
        "intersects": lambda one, other: any(each in one for each in other),
        "equivalent": lambda one, other: all(each in one for each in other) and all(each in other for each in one),
    }
    for name, test in tests.items():
        overload = _OVERLOAD(
            f"list_sets_{name}_list", return_type=_TYPE.BOOL, parameters=[every, every], is_member=False, impl=test
        )
        yield _DECLARATION(f"sets.{name}", [overload])


def _member(name: str, overload: str, result: Any, parameters: list[Any], impl: Callable[..., Any]) -> Any:
    made = _OVERLOAD(overload, return_type=result, parameters=parameters, is_member=True, impl=impl)
    return _DECLARATION(name, [made])


def _is_sorted(values: list[Any]) -> bool:
    return all(one <= other for one, other in itertools.pairwise(values))


def _not_empty(name: str, function: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def apply(values: list[Any]) -> Any:
        if not values:
            raise ValueError(f"{name} called on empty list")
        return function(values)

    return apply


def _compiled(pattern: str) -> Any:
    import re2

    return re2.compile(pattern)


def _find(text: str, pattern: str) -> str:
    found = _compiled(pattern).search(text)
    return found.group(0) if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match.group(0) for match in _compiled(pattern).finditer(text)]
    return found if limit < 0 else found[:limit]

"""The quick yes: is a value valid against its schema, with nothing to say? Asked before ``values`` and ``listtype``.

Checkers are closures, built once per schema. They may refuse too much and never too little: after a no the slow walk decides,
and finds the words.
"""

import operator
from collections.abc import Callable
from typing import Any

import orjson

from apimachinery.cel.library import regex
from controlplane.apiserver.crd.structural import formats, go, listtype
from controlplane.apiserver.crd.structural.node import Node
from controlplane.apiserver.crd.structural.values import format_of, is_choice, is_valid, multiple_problem

Checker = Callable[[Any], bool]


def compiled(node: Node) -> Checker:
    """A function that says whether a value fulfils ``node``, the types of its lists included. The node keeps it as ``quick``."""
    node.quick = _checker(node)
    return node.quick


def _checker(node: Node) -> Checker:
    checks = [*_types(node), *_text(node), *_number(node), *_list(node), *_object(node), *_combined(node)]
    if node.enum:
        texts = frozenset(choice for choice in node.enum if type(choice) is str)
        checks.append(
            lambda value: value in texts if type(value) is str else any(is_choice(value, choice) for choice in node.enum)
        )
    kind, rest = _plain_type(node), tuple(checks)
    nullable = node.nullable and not node.enum
    if kind is not None and not rest:
        if nullable:
            return lambda value: value is None or type(value) is kind
        return lambda value: type(value) is kind

    def check(value: Any) -> bool:
        if value is None:
            return nullable or (not node.types and not node.enum)
        if kind is not None and type(value) is not kind:
            return False
        return all(each(value) for each in rest)

    return check


_KINDS: dict[str, type] = {"string": str, "boolean": bool, "object": dict, "array": list}


def _plain_type(node: Node) -> type | None:
    return None if node.int_or_string else _KINDS.get(node.type)


def _types(node: Node) -> list[Checker]:
    """Integers and numbers, which are more than one type here."""
    if node.int_or_string:
        return [lambda value: type(value) is str or type(value) is int]
    if node.type == "integer":
        return [lambda value: type(value) is int and go.INT64_MIN <= value <= go.INT64_MAX]
    if node.type == "number":
        return [lambda value: type(value) is int or type(value) is float]
    return []


def _text(node: Node) -> list[Checker]:
    checks: list[Checker] = []
    longest, shortest = node.max_length, node.min_length
    if longest is not None:
        checks.append(lambda value: type(value) is not str or len(value) <= longest)
    if shortest is not None:
        checks.append(lambda value: type(value) is not str or len(value) >= shortest)
    if node.pattern:
        search = _search(node.pattern)
        checks.append(lambda value: type(value) is not str or search(value) is not None)
    is_of_format = formats.checker(node.format) if format_of(node) else None
    if is_of_format is not None:
        checks.append(lambda value: type(value) is not str or is_of_format(value))
    return checks


def _search(pattern: str) -> Callable[[str], Any]:
    try:
        found: Callable[[str], Any] = regex.compiled(pattern).search
    except ValueError:
        return lambda _: None
    return found


def _number(node: Node) -> list[Checker]:
    checks: list[Checker] = []
    low, high, factor = node.minimum, node.maximum, node.multiple_of
    if low is not None:
        above = operator.gt if node.exclusive_minimum else operator.ge
        checks.append(lambda value: not _is_number(value) or above(value, low))
    if high is not None:
        below = operator.lt if node.exclusive_maximum else operator.le
        checks.append(lambda value: not _is_number(value) or below(value, high))
    if factor is not None:
        checks.append(lambda value: not _is_number(value) or not multiple_problem(value, factor, whole=type(value) is int))
    return checks


def _is_number(value: Any) -> bool:
    return type(value) is int or type(value) is float


def _list(node: Node) -> list[Checker]:
    checks: list[Checker] = []
    most, least = node.max_items, node.min_items
    if most is not None:
        checks.append(lambda value: type(value) is not list or len(value) <= most)
    if least is not None:
        checks.append(lambda value: type(value) is not list or len(value) >= least)
    if node.unique_items:
        checks.append(lambda value: type(value) is not list or len({orjson.dumps(each) for each in value}) == len(value))
    if node.items is not None:
        each_fits = compiled(node.items)
        checks.append(lambda value: type(value) is not list or all(map(each_fits, value)))
    if node.list_type in ("set", "map"):
        checks.append(lambda value: type(value) is not list or not listtype.duplicates(value, node))
    return checks


def _object(node: Node) -> list[Checker]:
    checks: list[Checker] = []
    most, least = node.max_properties, node.min_properties
    if most is not None:
        checks.append(lambda value: type(value) is not dict or len(value) <= most)
    if least is not None:
        checks.append(lambda value: type(value) is not dict or len(value) >= least)
    if node.required:
        required = frozenset(node.required)
        checks.append(lambda value: type(value) is not dict or value.keys() >= required)
    table = {name: compiled(inner) for name, inner in node.properties.items()}
    if node.additional is not None:
        other: Checker | None = compiled(node.additional)
    else:
        other = (lambda _: False) if node.additional_allowed is False else None
    if table or other is not None:
        checks.append(_fields(table, other))
    return checks


def _fields(table: dict[str, Checker], other: Checker | None) -> Checker:
    def check(value: Any) -> bool:
        if type(value) is not dict:
            return True
        get = table.get
        for key, inner in value.items():
            fits = get(key, other)
            if fits is not None and not fits(inner):
                return False
        return True

    return check


def _combined(node: Node) -> list[Checker]:
    checks: list[Checker] = [compiled(one) for one in node.all_of]
    if node.any_of:
        any_of = tuple(map(compiled, node.any_of))
        checks.append(lambda value: any(fits(value) for fits in any_of))
    if node.one_of:
        one_of = tuple(map(_exactly, node.one_of))
        checks.append(lambda value: sum(fits(value) for fits in one_of) == 1)
    if node.not_ is not None:
        never = _exactly(node.not_)
        checks.append(lambda value: not never(value))
    return checks


def _exactly(node: Node) -> Checker:
    """Where a no counts as much as a yes."""
    fits = compiled(node)
    return lambda value: fits(value) or is_valid(value, node)

"""Lists: ``isSorted``, ``sum``, ``min``, ``max``, ``indexOf``, ``lastIndexOf``. Upstream's ``library.Lists``.

The sum, the least and the greatest are of a type that is known when they are evaluated: so is whether the elements have any.
Durations cannot be summed up: the evaluator takes none from a function whose type is known so late.
"""

import itertools
from collections.abc import Callable
from typing import Any

from apimachinery.cel.library.declare import (
    ANYTHING,
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Overload,
    list_of,
)

_COMPARABLE = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)


def _ordered(values: list[Any]) -> list[Any]:
    kinds = {type(each) for each in values}
    if len(kinds) > 1 and kinds != {int, float}:
        raise ValueError("no such overload")
    return values


def _is_sorted(values: list[Any]) -> bool:
    return all(one <= other for one, other in itertools.pairwise(_ordered(values)))


def _sum(values: list[Any]) -> Any:
    if any(isinstance(each, bool) or not isinstance(each, int | float) for each in values):
        raise ValueError("no such overload")
    return sum(_ordered(values))


def _not_empty(name: str, function: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def apply(values: list[Any]) -> Any:
        if not values:
            raise ValueError(f"{name} called on empty list")
        return function(_ordered(values))

    return apply


def _same(one: Any, other: Any) -> bool:
    """Equal as the language has it: truth is no number."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)


def _index_of(values: list[Any], wanted: Any) -> int:
    return next((index for index, each in enumerate(values) if _same(each, wanted)), -1)


def _last_index_of(values: list[Any], wanted: Any) -> int:
    return next((index for index in range(len(values) - 1, -1, -1) if _same(values[index], wanted)), -1)


_EVERY = list_of(ANYTHING)
OVERLOADS = (
    *(Overload("isSorted", f"list_{t.name}_is_sorted_bool", (list_of(t),), BOOL, _is_sorted, True) for t in _COMPARABLE),
)
BESIDE_OTHERS = (
    Overload("sum", "list_sum", (_EVERY,), ANYTHING, _sum, True),
    Overload("min", "list_min", (_EVERY,), ANYTHING, _not_empty("min", min), True),
    Overload("max", "list_max", (_EVERY,), ANYTHING, _not_empty("max", max), True),
    Overload("indexOf", "list_a_index_of_int", (_EVERY, ANYTHING), INT, _index_of, True),
    Overload("lastIndexOf", "list_a_last_index_of_int", (_EVERY, ANYTHING), INT, _last_index_of, True),
)
"""Those whose result depends on the elements, and those that the evaluator has for other types."""

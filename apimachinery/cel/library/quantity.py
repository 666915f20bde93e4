"""Quantities: made from text, compared, added, taken as numbers. Upstream's ``library.Quantity``."""

from typing import Any

from apimachinery import quantity
from apimachinery.cel import values
from apimachinery.cel.library.declare import BOOL, DOUBLE, INT, STRING, Overload, T

_TYPE = T(values.QUANTITY)
_NANO = 10**9
_LARGEST = quantity.parse("9999999999E").nanos
"""What reading caps greater amounts to: they are known to be this or more."""


def make(text: str) -> Any:
    """The value of a quantity's text, for use among an expression's variables. Raises ValueError with upstream's message."""
    return _made(quantity.parse(text).nanos)


def _made(nanos: int) -> Any:
    return values.make(values.QUANTITY, str(nanos))


def _nanos(value: Any) -> int:
    return int(values.text_of(value))


def _is_quantity(text: str) -> bool:
    try:
        quantity.parse(text)
    except ValueError:
        return False
    return True


def _is_integer(value: Any) -> bool:
    nanos = _nanos(value)
    return nanos % _NANO == 0 and abs(nanos) < _LARGEST


def _as_integer(value: Any) -> int:
    if not _is_integer(value):
        raise ValueError("cannot convert value to integer")
    return _nanos(value) // _NANO


def _compare(one: Any, other: Any) -> int:
    left, right = _nanos(one), _nanos(other)
    return (left > right) - (left < right)


def _sign(value: Any) -> int:
    nanos = _nanos(value)
    return (nanos > 0) - (nanos < 0)


OVERLOADS = (
    Overload("quantity", "string_to_quantity", (STRING,), _TYPE, make),
    Overload("isQuantity", "is_quantity_string", (STRING,), BOOL, _is_quantity),
    Overload("sign", "quantity_sign", (_TYPE,), INT, _sign, True),
    Overload("isGreaterThan", "quantity_is_greater_than", (_TYPE, _TYPE), BOOL, lambda a, b: _compare(a, b) > 0, True),
    Overload("isLessThan", "quantity_is_less_than", (_TYPE, _TYPE), BOOL, lambda a, b: _compare(a, b) < 0, True),
    Overload("compareTo", "quantity_compare_to", (_TYPE, _TYPE), INT, _compare, True),
    Overload("asApproximateFloat", "quantity_get_float", (_TYPE,), DOUBLE, lambda a: _nanos(a) / _NANO, True),
    Overload("asInteger", "quantity_get_int", (_TYPE,), INT, _as_integer, True),
    Overload("isInteger", "quantity_is_integer", (_TYPE,), BOOL, _is_integer, True),
    Overload("add", "quantity_add", (_TYPE, _TYPE), _TYPE, lambda a, b: _made(_nanos(a) + _nanos(b)), True),
    Overload("add", "quantity_add_int", (_TYPE, INT), _TYPE, lambda a, b: _made(_nanos(a) + b * _NANO), True),
    Overload("sub", "quantity_sub", (_TYPE, _TYPE), _TYPE, lambda a, b: _made(_nanos(a) - _nanos(b)), True),
    Overload("sub", "quantity_sub_int", (_TYPE, INT), _TYPE, lambda a, b: _made(_nanos(a) - b * _NANO), True),
)

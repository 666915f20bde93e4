"""Values as Go prints and compares them: what the texts of upstream's validation are made of."""

from typing import Any

INT64_MAX, INT64_MIN = 2**63 - 1, -(2**63)


def number(value: float) -> str:
    """A float64 by ``%v``: the shortest digits, with an exponent from 1e+21 on and below 1e-04."""
    value = float(value)
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value)) if value or str(value)[0] != "-" else "-0"
    text = repr(value)
    if "e" not in text and abs(value) >= 1e-4:
        return text
    mantissa, _, exponent = f"{value:e}".partition("e")
    shortest = text.partition("e")[0] if "e" in text else mantissa
    shortest = shortest.removesuffix(".0")
    power = int(exponent)
    return f"{shortest}e{'-' if power < 0 else '+'}{abs(power):02d}"


def ordered(value: Any) -> Any:
    """Maps in the order in which Go writes them into JSON."""
    if isinstance(value, dict):
        return {key: ordered(value[key]) for key in sorted(value)}
    return [ordered(each) for each in value] if isinstance(value, list) else value


def same(one: Any, other: Any) -> bool:
    """Deeply equal: truth is no number, and an integer no float."""
    if type(one) is not type(other):
        return False
    if type(one) is dict:
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if type(one) is list:
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)

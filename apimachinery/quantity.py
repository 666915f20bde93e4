"""Resource quantities: ``100m``, ``1.5Gi``, ``12e6``. Exact, to the nano, with upstream's canonical text.

Amounts are kept as an integer number of nanos, so that arithmetic and comparison are plain integer ones; finer parts are
rounded away from zero, as upstream does. Parsed values are cached: a cluster uses few distinct ones.
"""

import re
from dataclasses import dataclass
from functools import lru_cache, total_ordering
from typing import Literal

Format = Literal["DecimalSI", "BinarySI", "DecimalExponent"]

_NANO = 10**9
_MAX = (2**63 - 1) * _NANO
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_BINARY_SUFFIX = {power: suffix for suffix, power in _BINARY.items()}

_NUMBER_RE = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(.*)", re.DOTALL)
_SUFFIX_RE = re.compile(r"[eEinumkKMGTP]*[-+]?[0-9]*")
_EXPONENT_RE = re.compile(r"[eE]([-+]?[0-9]+)")

FORMAT_ERROR = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX_ERROR = "unable to parse quantity's suffix"


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """An amount and the family of suffixes it was written in. Equal when the amounts are equal."""

    nanos: int
    format: Format = "DecimalSI"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nanos == other.nanos

    def __lt__(self, other: "Quantity") -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nanos + other.nanos, self.format if self.nanos else other.format)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nanos - other.nanos, self.format if self.nanos else other.format)

    def __neg__(self) -> "Quantity":
        return Quantity(-self.nanos, self.format)

    def __mul__(self, factor: int) -> "Quantity":
        return Quantity(self.nanos * factor, self.format)

    def value(self) -> int:
        """The amount as an integer, rounded away from zero."""
        return _divide_away(self.nanos, _NANO)

    def milli(self) -> int:
        """Thousandths, rounded away from zero: the unit of CPU arithmetic."""
        return _divide_away(self.nanos, 10**6)

    def is_integer(self) -> bool:
        return self.nanos % _NANO == 0

    def __str__(self) -> str:
        if not self.nanos:
            return "0"
        if self.format == "BinarySI" and self.nanos % _NANO == 0 and abs(self.nanos) >= 1024 * _NANO:
            return _binary_text(self.nanos // _NANO)
        return _decimal_text(self.nanos, exponential=self.format == "DecimalExponent")


ZERO = Quantity(0)


def _divide_away(number: int, divisor: int) -> int:
    return -(-number // divisor) if number >= 0 else number // divisor


def _binary_text(amount: int) -> str:
    power = 0
    while amount % 1024 == 0 and power < 6:
        amount //= 1024
        power += 1
    return f"{amount}{_BINARY_SUFFIX.get(power, '')}"


def _decimal_text(nanos: int, *, exponential: bool) -> str:
    exponent = -9
    while nanos % 1000 == 0 and (exponent < 18 or exponential):
        nanos //= 1000
        exponent += 3
    if exponential:
        return f"{nanos}e{exponent}" if exponent else str(nanos)
    return f"{nanos}{_DECIMAL_SUFFIX[exponent]}"


def _scale(suffix: str) -> tuple[int, int, Format]:
    """``(base, exponent, format)`` of a suffix. Raises ValueError."""
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix], "DecimalSI"
    if suffix in _BINARY:
        return 1024, _BINARY[suffix], "BinarySI"
    exponent = _EXPONENT_RE.fullmatch(suffix)
    if exponent and len(exponent[1]) <= 5:
        return 10, int(exponent[1]), "DecimalExponent"
    raise ValueError(SUFFIX_ERROR)


@lru_cache(maxsize=4096)
def _parse(text: str) -> Quantity:
    match = _NUMBER_RE.fullmatch(text)
    assert match is not None  # every part of the pattern may be empty
    sign, whole, fraction, suffix = match[1], match[2], match[3] or "", match[4]
    if not whole + fraction or not _SUFFIX_RE.fullmatch(suffix):
        raise ValueError(FORMAT_ERROR)
    base, exponent, family = _scale(suffix)
    digits = int(whole + fraction)
    power = 9 - len(fraction)
    if base == 10:
        power += exponent
    else:
        digits *= base**exponent
    if power > 64:  # no such amount exists; do not compute astronomically large integers
        nanos = _MAX if digits else 0
    elif power >= 0:
        nanos = digits * 10**power
    else:
        nanos = _divide_away(digits, 10 ** min(-power, len(whole + fraction) + 40))
    nanos = min(nanos, _MAX)
    return Quantity(-nanos if sign == "-" else nanos, family)


def parse(text: str | int | float) -> Quantity:
    """Read a quantity; JSON numbers count as text without suffix. Raises ValueError with upstream's message."""
    if isinstance(text, str):
        return _parse(text)
    if isinstance(text, bool):
        raise ValueError(FORMAT_ERROR)
    return _parse(str(text)) if isinstance(text, int) else _parse(repr(text))


@lru_cache(maxsize=4096)
def _canonical(text: str) -> str:
    return str(_parse(text))


def canonical(text: str | int | float) -> str:
    """The one text that upstream stores for this amount: ``1000m`` is ``1``, ``1024Mi`` is ``1Gi``."""
    return _canonical(text) if isinstance(text, str) else str(parse(text))


def of_milli(amount: int) -> Quantity:
    return Quantity(amount * 10**6)


def of(amount: int, family: Format = "DecimalSI") -> Quantity:
    return Quantity(amount * _NANO, family)

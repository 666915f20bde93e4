"""Semantic versions (semver.org): made from text, compared, taken apart. Upstream's ``library.SemverLib``, version 1.

What follows ``+`` does not count in comparisons and is not kept.
"""

import re
from typing import Any

from apimachinery.cel import values
from apimachinery.cel.library.declare import BOOL, INT, STRING, Overload, T

_TYPE = T(values.SEMVER)
_DIGITS = re.compile(r"[0-9]+")
_IDENTIFIER = re.compile(r"[0-9A-Za-z-]+")
_MOST = 2**64 - 1


def make(text: str, normalize: bool = False) -> Any:
    """The value of a version's text, for use among an expression's variables.

    ``normalize`` takes ``v1.02`` for ``1.2.0``. Raises ValueError in the words of the library that upstream reads versions with.
    """
    return values.make(values.SEMVER, _read(_normalized(text) if normalize else text))


def _read(text: str) -> str:
    if not text:
        raise ValueError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise ValueError("No Major.Minor.Patch elements found")
    core, plus, build = parts[2].partition("+")
    patch, dash, before = core.partition("-")
    numbers = [_number(part, name) for part, name in ((parts[0], "major"), (parts[1], "minor"), (patch, "patch"))]
    identifiers = before.split(".") if dash else []
    for each in identifiers:
        _check_prerelease(each)
    for each in build.split(".") if plus else []:
        if not each:
            raise ValueError("Build meta data is empty")
        if not _IDENTIFIER.fullmatch(each):
            raise ValueError(f'Invalid character(s) found in build meta data "{each}"')
    return ".".join(numbers) + ("-" + ".".join(identifiers) if identifiers else "")


def _number(text: str, name: str) -> str:
    if not _DIGITS.fullmatch(text):
        if not text:
            raise ValueError('strconv.ParseUint: parsing "": invalid syntax')
        raise ValueError(f'Invalid character(s) found in {name} number "{text}"')
    if len(text) > 1 and text[0] == "0":
        raise ValueError(f'{name.capitalize()} number must not contain leading zeroes "{text}"')
    if len(text) > 20 or int(text) > _MOST:
        raise ValueError(f'strconv.ParseUint: parsing "{text}": value out of range')
    return text


def _check_prerelease(text: str) -> None:
    if not text:
        raise ValueError("Prerelease is empty")
    if _DIGITS.fullmatch(text):
        if len(text) > 1 and text[0] == "0":
            raise ValueError(f'Numeric PreRelease version must not contain leading zeroes "{text}"')
    elif not _IDENTIFIER.fullmatch(text):
        raise ValueError(f'Invalid character(s) found in prerelease "{text}"')


def _normalized(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            shorter = part.lstrip("0")
            parts[index] = shorter if shorter[:1] and shorter[0] in "0123456789" else "0" + shorter
    if len(parts) < 3:
        if any(each in parts[-1] for each in "+-"):
            raise ValueError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        make(text, normalize)
    except ValueError:
        return False
    return True


def _part(index: int) -> Any:
    def part(value: Any) -> int:
        number = int(values.text_of(value).partition("-")[0].split(".")[index])
        return number - (1 << 64) if number >= 1 << 63 else number  # as Go converts it

    return part


def _key(value: Any) -> tuple[Any, ...]:
    """Compares as versions do: what comes before a release is less than it, numbers are less than words."""
    core, dash, before = values.text_of(value).partition("-")
    identifiers = [(0, int(each), "") if _DIGITS.fullmatch(each) else (1, 0, each) for each in before.split(".")] if dash else []
    return (*(int(each) for each in core.split(".")), not dash, identifiers)


def _compare(one: Any, other: Any) -> int:
    left, right = _key(one), _key(other)
    return (left > right) - (left < right)


OVERLOADS = (
    Overload("semver", "string_to_semver", (STRING,), _TYPE, make),
    Overload("semver", "string_bool_to_semver", (STRING, BOOL), _TYPE, make),
    Overload("isSemver", "is_semver_string", (STRING,), BOOL, _is_semver),
    Overload("isSemver", "is_semver_string_bool", (STRING, BOOL), BOOL, _is_semver),
    Overload("isGreaterThan", "semver_is_greater_than", (_TYPE, _TYPE), BOOL, lambda a, b: _compare(a, b) > 0, True),
    Overload("isLessThan", "semver_is_less_than", (_TYPE, _TYPE), BOOL, lambda a, b: _compare(a, b) < 0, True),
    Overload("compareTo", "semver_compare_to", (_TYPE, _TYPE), INT, _compare, True),
    Overload("major", "semver_major", (_TYPE,), INT, _part(0), True),
    Overload("minor", "semver_minor", (_TYPE,), INT, _part(1), True),
    Overload("patch", "semver_patch", (_TYPE,), INT, _part(2), True),
)

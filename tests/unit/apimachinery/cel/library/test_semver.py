"""Semantic versions in expressions: upstream's examples, the order of semver.org, exact refusals."""

from typing import Any

import pytest

from apimachinery.cel.environment import SEMVER, Environment
from apimachinery.cel.library import semver
from tests.unit.apimachinery.cel.library.expressions import does_not_compile, fails, value

IN_ORDER = """
    0.9.9 1.0.0-1 1.0.0-2 1.0.0-10 1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta.2 1.0.0-beta.11 1.0.0 1.2.3 1.10.0
"""


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("isSemver('1.2.3-beta.1+build.1')", True),
        ("isSemver('')", False),
        ("isSemver('v1.0.0')", False),
        ("isSemver(' 1.0.0')", False),
        ("isSemver('1. 0.0')", False),
        ("isSemver('01.01.01')", False),
        ("isSemver('1.1')", False),
        ("isSemver('', true)", False),
        ("isSemver('1.0.0 ', true)", False),
        ("isSemver('v1.0.0', true)", True),
        ("isSemver('01.01.01', true)", True),
        ("isSemver('1', true)", True),
        ("isSemver('1.1-a', true)", False),
        ("semver('v01.01', true) == semver('1.1.0')", True),
        ("semver('1.2.3+one') == semver('1.2.3+other')", True),
        ("semver('1.2.3') == semver('1.0.0')", False),
        ("semver('1.0.0').isLessThan(semver('1.2.3'))", True),
        ("semver('1.2.3').isGreaterThan(semver('1.0.0'))", True),
        ("semver('1.2.3').major() * 100 + semver('1.2.3').minor() * 10 + semver('1.2.3').patch()", 123),
    ],
)
def test_values(expression: str, expected: Any) -> None:
    assert value(expression) == expected


def test_order() -> None:
    for one, first in enumerate(IN_ORDER.split()):
        for other, second in enumerate(IN_ORDER.split()):
            assert value(f"semver('{first}').compareTo(semver('{second}'))") == (one > other) - (one < other)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "Version string empty"),
        ("v1.0", "No Major.Minor.Patch elements found"),
        ("a.0.0", 'Invalid character(s) found in major number "a"'),
        ("1.02.0", 'Minor number must not contain leading zeroes "02"'),
        ("1.0.x", 'Invalid character(s) found in patch number "x"'),
        ("1.0.0-01", 'Numeric PreRelease version must not contain leading zeroes "01"'),
        ("1.0.0-a..b", "Prerelease is empty"),
        ("1.0.0-a_b", 'Invalid character(s) found in prerelease "a_b"'),
        ("1.0.0+", "Build meta data is empty"),
        ("99999999999999999999.0.0", 'strconv.ParseUint: parsing "99999999999999999999": value out of range'),
    ],
)
def test_what_is_no_version(text: str, problem: str) -> None:
    fails(f"semver('{text}').major() == 1", problem)


def test_types_and_variables() -> None:
    does_not_compile("isSemver([1, 2, 3])", "found no matching overload for 'isSemver' applied to '(list(int))'")
    program = Environment({"driver": SEMVER}).compile("driver.compareTo(semver('1.2.0')) >= 0")
    assert program.evaluate({"driver": semver.make("1.10.0")}) is True

"""Quantities in expressions: upstream's examples, and what no expression may do with their inside."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apimachinery.cel.environment import QUANTITY, Environment
from apimachinery.cel.library import quantity
from tests.unit.apimachinery.cel.library.expressions import does_not_compile, fails, value


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("isQuantity('20')", True),
        ("isQuantity('1.3Gi')", True),
        ("isQuantity('20Mo')", False),
        ("isQuantity('10Mm')", False),
        ("isQuantity('Three')", False),
        ("quantity('200M') == quantity('0.2G') && quantity('1Ki') == quantity('1024')", True),
        ("quantity('200M') == quantity('0.3G')", False),
        ("quantity('200M') != quantity('0.3G')", True),
        ("quantity('50M').isLessThan(quantity('50Mi'))", True),
        ("quantity('100M').isLessThan(quantity('50M'))", False),
        ("quantity('150Mi').isGreaterThan(quantity('100Mi'))", True),
        ("quantity('200M').compareTo(quantity('0.2G'))", 0),
        ("quantity('50M').compareTo(quantity('50Mi'))", -1),
        ("quantity('50Mi').compareTo(quantity('50M'))", 1),
        ("quantity('50k').add(quantity('20')) == quantity('50.02k')", True),
        ("quantity('50k').add(20) == quantity('50020')", True),
        ("quantity('50k').sub(20).asInteger()", 49980),
        ("quantity('50k').add(20).sub(quantity('100k')).sub(-50000).asInteger()", 20),
        ("quantity('-3').sign() + quantity('0').sign() + quantity('1n').sign() * 10", 9),
        ("quantity('50k').isInteger() && !quantity('1.5').isInteger()", True),
        ("quantity('9999999999999999999999999999999999999G').isInteger()", False),
        ("quantity('50.703k').asApproximateFloat()", 50703.0),
        ("[quantity('1'), quantity('2')].exists(q, q == quantity('2000m'))", True),
        ("quantity(x).isGreaterThan(quantity('1')) ? 'much' : 'little'", "much"),
        ("dyn(quantity('1')) == dyn('1')", False),
    ],
)
def test_values(expression: str, expected: Any) -> None:
    assert value(expression, "2") == expected


def test_what_is_no_quantity() -> None:
    fails("quantity('10Mo')", "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
    fails("quantity('10Mm')", "unable to parse quantity's suffix")
    fails("quantity('1.5').asInteger()", "cannot convert value to integer")
    fails("quantity('9999999999999999999999999999999999999G').asInteger()", "cannot convert value to integer")
    fails("quantity('1').isGreaterThan(x)", "no such overload", "1")
    fails("quantity('1').isGreaterThan(dyn(semver('1.0.0')))", "no such overload")


def test_types() -> None:
    does_not_compile("isQuantity([1, 2, 3])", "found no matching overload for 'isQuantity' applied to '(list(int))'")
    does_not_compile("quantity('1') == '1'", "'_==_' applied to '(kubernetes.Quantity, string)'")
    does_not_compile("quantity('1').isLessThan(semver('1.0.0'))", "'(kubernetes.Quantity, kubernetes.Semver)'")


@pytest.mark.parametrize("expression", ["quantity('1').`null`", "x.`a-b`", "kubernetes.Quantity{`null`: '1'}"])
def test_the_inside_of_a_value_is_out_of_reach(expression: str) -> None:
    does_not_compile(expression, "compilation failed: ")


def test_variables() -> None:
    program = Environment({"capacity": QUANTITY}).compile("capacity.compareTo(quantity('10Gi')) >= 0")
    assert program.evaluate({"capacity": quantity.make("10Gi")}) is True
    assert program.evaluate({"capacity": quantity.make("9Gi")}) is False


@given(st.integers(-(10**15), 10**15), st.integers(-(10**15), 10**15))
def test_arithmetic_is_exact(one: int, other: int) -> None:
    assert value(f"quantity('{one}m').add(quantity('{other}m')) == quantity('{one + other}m')") is True
    assert value(f"quantity('{one}m').compareTo(quantity('{other}m'))") == (one > other) - (one < other)

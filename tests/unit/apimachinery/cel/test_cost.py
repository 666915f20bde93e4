"""The bound on cost: it holds for what is evaluated, and grows with what it is given."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apimachinery.cel.cost import ENDLESS, LARGEST, Sizes, measure, most
from apimachinery.cel.environment import ANY, Environment

ENVIRONMENT = Environment({"x": ANY, "y": ANY})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)


def bound(expression: str, elements: int = 10, characters: int = 10) -> int:
    return most(ENVIRONMENT.compile(expression).tree, Sizes(elements, characters))


@pytest.mark.parametrize("power", [1, 2, 3])
def test_a_loop_in_a_loop_costs_the_product(power: int) -> None:
    expression = "true"
    for level in range(power):
        expression = f"x.all(v{level}, {expression})"
    small, large = bound(expression, 10), bound(expression, 1000)
    assert 0.5 * 100**power < large / small < 2 * 100**power


@pytest.mark.parametrize(
    "expression",
    ["x.map(a, x.map(b, a + b))", "x.map(a, x).map(c, c.size())", "(x + x + x).all(a, a)", "x.replace(y, x).replace(y, x)"],
)
def test_more_is_never_cheaper(expression: str) -> None:
    costs = [bound(expression, size, size) for size in (1, 10, 100, 1000, 10**6, 10**9)]
    assert costs == sorted(costs)
    assert costs[-1] <= ENDLESS


@pytest.mark.parametrize(
    "expression",
    [
        "x.all(a, x.all(b, x.all(c, c > 1)))",
        "x.y.filter(a, a.b > 1).map(c, c.d).all(e, e.f.all(g, g > 1))",
        "x.?y.orValue([]).all(a, a.?b.orValue([]).all(c, c > 1))",
        "(x + y).all(a, a.b.all(c, c > 1))",
    ],
)
def test_long_texts_do_not_make_loops_long(expression: str) -> None:
    """A pod may have an annotation of a hundred kilobytes: nobody runs over its characters."""
    assert bound(expression, 10, 100_000) < 1_000_000


@pytest.mark.parametrize("expression", ["x.split('').all(a, x.split('').all(b, a == b))", "x.all(a, a.matches(y))"])
def test_long_texts_count_where_they_are_looked_at(expression: str) -> None:
    assert bound(expression, 10, 1_000_000) > 1_000_000


def test_lists_that_are_written_out_are_known() -> None:
    assert bound("[1, 2, 3].all(a, a > 0)", 10**6) < 100


def test_what_no_input_can_make_expensive_is_known_at_once() -> None:
    assert most(ENVIRONMENT.compile("has(x.y) && x.y == true").tree, LARGEST) < 1_000_000
    assert most(ENVIRONMENT.compile("x.all(a, x.all(b, a == b))").tree, LARGEST) > 1_000_000


@pytest.mark.parametrize(
    "step",
    [
        "'%s%s'.format([@, @])",
        "{'t': @ + @}.t",
        "{'t': @ + @}.?t.orValue('')",
        "{'t': @}.transformMap(k, v, v + v)['t']",
        "@.replace('a', 'aa', -1)",
        "strings.quote(@)",
        "base64.encode(bytes(@))",
        "[@, @]",
        "[[@ + @], [x]][0][0]",
        "(x + [@ + @])[0]",
        "(true ? [@ + @] : x)[0]",
        "optional.none().or(optional.of(@ + @)).value()",
    ],
)
def test_what_grows_with_every_step_is_known_to_grow(step: str) -> None:
    """Ten steps of twice as much are a thousand times as much: an expression of a few lines must not fill the memory."""
    few, many = (bound(_steps(step, count), 10, 1000) for count in (4, 10))
    assert many > 6 * few


def _steps(step: str, count: int) -> str:
    expression = f"v{count} == v{count}"
    for number in range(count, 0, -1):
        before = f"v{number - 1}" if number > 1 else "string(x)"
        expression = f"cel.bind(v{number}, {step.replace('@', before)}, {expression})"
    return expression


@given(JSON)
def test_measure_finds_the_largest(value: Any) -> None:
    def lists(found: Any) -> list[int]:
        if isinstance(found, dict):
            return [len(found), *(size for each in found.values() for size in lists(each))]
        if isinstance(found, list):
            return [len(found), *(size for each in found for size in lists(each))]
        return [0]

    assert measure(value).elements == max(lists(value))

"""What rules cost: the estimate is never less than what it is for smaller values, and known costs are known."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.apiserver.crd.structural.node import read
from controlplane.apiserver.crd.structural.rules import estimate
from controlplane.apiserver.crd.structural.rules.checking import plain
from controlplane.apiserver.crd.structural.rules.declared import MAX_REQUEST, Types


def cost(expression: str, value: Any) -> int:
    return estimate.most(plain().compile(expression).tree, {"self": estimate.of_value(value)})


@pytest.mark.parametrize(
    ("expression", "value", "wanted"),
    [
        ("true", None, 0),
        ("self.a", {"a": 1}, 2),
        ("has(self.a)", {"a": 1}, 1),
        ("self.a == 1", {"a": 1}, 3),
        ("self == 'abc'", "x" * 100, 2),
        ("self.contains('abc')", "x" * 100, 11),
        ("self.matches('abc')", "x" * 99, 11),
        ("self.all(x, x > 1)", [1, 2], 1 + 2 * (2 + 3) + 1),
        ("self.size() > 0 && self[0] > 1", [1, 2], 2 + 1 + 2 + 1),
        ("self + self == 'a'", "x" * 100, 2 + 20 + 1),
        ("1 in self", [1, 2, 3], 4),
        ("self ? 1 > 0 : self.a > 0", {}, 1 + 3),
    ],
)
def test_costs_of_cel_go(expression: str, value: Any, wanted: int) -> None:
    assert cost(expression, value) == wanted


@pytest.mark.parametrize(
    "step",
    ["'%s%s'.format([@, @])", "{'t': @ + @}.?t.orValue('')", "@.replace('a', 'aa', -1)", "strings.quote(@)"],
)
def test_what_grows_with_every_step_is_known_to_grow(step: str) -> None:
    expression = "v9 == v9"
    for number in range(9, 0, -1):
        before = f"v{number - 1}" if number > 1 else "self"
        expression = f"cel.bind(v{number}, {step.replace('@', before)}, {expression})"
    assert cost(expression, "a" * 1000) > 2**9 * 1000 * 0.1


EXPRESSIONS = (
    "self.l.all(x, x.s.startsWith('a') || x.s.matches('b+'))",
    "self.l.map(x, x.s).join(',').size() > 3",
    "self.l.exists_one(x, self.l.exists(y, x.s == y.s))",
    "self.l.filter(x, x.s.contains('a')).size() == self.l.size()",
    "self.s.split(',').all(x, x.lowerAscii() == x)",
)
TEXTS = st.text("ab,", max_size=20)
OBJECTS = st.fixed_dictionaries({"s": TEXTS, "l": st.lists(st.fixed_dictionaries({"s": TEXTS}), max_size=5)})


@settings(max_examples=40)
@given(st.sampled_from(EXPRESSIONS), OBJECTS)
def test_a_value_costs_no_more_than_its_schema_allows(expression: str, value: Any) -> None:
    text = {"type": "string", "maxLength": 20}
    element = {"type": "object", "properties": {"s": text}}
    schema = {"type": "object", "properties": {"s": text, "l": {"type": "array", "maxItems": 5, "items": element}}}
    declared = Types().of(read(schema))
    assert declared is not None
    most = estimate.most(plain().compile(expression).tree, {"self": declared.size})
    assert cost(expression, value) <= most < estimate.ENDLESS


def test_sizes_that_nothing_bounds_are_those_of_the_largest_request() -> None:
    declared = Types().of(read({"type": "array", "items": {"type": "string"}}))
    assert declared is not None
    assert declared.size.most == (MAX_REQUEST - 2) // 3
    assert declared.size.element == estimate.Size(MAX_REQUEST - 2, text=True)

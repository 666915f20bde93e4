"""Literals that can never be right are refused with the expression, not when somebody is to be let in by it."""

import pytest

from tests.unit.apimachinery.cel.library.expressions import does_not_compile, value


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("duration('1x') > duration('1s')", "invalid duration argument"),
        ("duration('') > duration('1s')", "invalid duration argument"),
        ("timestamp('2026-13-01T00:00:00Z') > x", "invalid timestamp argument"),
        ("timestamp('2026-01-01') > x", "invalid timestamp argument"),
        ("x.matches('(')", "invalid matches argument"),
        ("matches(x, '[')", "invalid matches argument"),
        ("x.all(y, y.find('(?<a>') == '')", "invalid find argument"),
        ("x in [1, 'a']", "expected type 'int' but found 'string'"),
        ("[1, 2.0].size() == 2", "expected type 'int' but found 'double'"),
        ("{'a': 1, 'b': true}.size() == 2", "expected type 'int' but found 'bool'"),
        ("[[1], ['a', null]].size() == 2", "expected type 'string' but found 'null_type'"),
    ],
)
def test_refused(expression: str, problem: str) -> None:
    does_not_compile(expression, f"compilation failed: {problem}")


@pytest.mark.parametrize(
    "expression",
    [
        "duration('1h30m0.5s') > duration('-1.5us') && duration('0') == duration('0s')",
        "timestamp('2026-01-01T00:00:00.123456789+02:00') < timestamp('2026-01-02T00:00:00Z')",
        "'aa'.matches('^a+$') && 'a'.find('b') == ''",
        "[dyn(1), 'a'].size() == 2 && {'a': dyn(1), 'b': 'c'}.size() == 2 && [[1], [2]].size() == 2",
    ],
)
def test_taken(expression: str) -> None:
    assert value(expression) is True

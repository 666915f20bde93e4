"""Expressions and patterns of users: none takes for ever, whatever it is given."""

import time

import pytest

from apimachinery.cel.environment import ANY, Environment, EvaluationError

ENVIRONMENT = Environment({"x": ANY})


@pytest.mark.parametrize("expression", ["x.matches('^(a+)+$')", "x.find('^(a+)+$') == ''", "x.findAll('(a|aa)+$').size() == 0"])
def test_no_pattern_takes_for_ever(expression: str) -> None:
    program = ENVIRONMENT.compile(expression)
    started = time.monotonic()
    program.evaluate({"x": "a" * 27 + "!"})
    assert time.monotonic() - started < 1


def test_no_expression_runs_for_ever() -> None:
    program = ENVIRONMENT.compile("x.all(a, x.all(b, x.all(c, a + b + c >= 0)))")
    started = time.monotonic()
    with pytest.raises(EvaluationError, match="cost limit exceeded"):
        program.evaluate({"x": list(range(150))})
    assert time.monotonic() - started < 1

"""What the tests of the libraries share: an environment, and expressions with their value or problem."""

from typing import Any

import pytest

from apimachinery.cel.environment import ANY, CompileError, Environment, EvaluationError

ENVIRONMENT = Environment({"x": ANY})


def value(expression: str, x: Any = None) -> Any:
    return ENVIRONMENT.compile(expression).evaluate({"x": x})


def fails(expression: str, problem: str, x: Any = None) -> None:
    program = ENVIRONMENT.compile(expression)
    with pytest.raises(EvaluationError) as caught:
        program.evaluate({"x": x})
    assert str(caught.value) == problem


def does_not_compile(expression: str, problem: str) -> None:
    with pytest.raises(CompileError) as caught:
        ENVIRONMENT.compile(expression)
    assert problem in str(caught.value)

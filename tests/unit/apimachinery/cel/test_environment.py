"""Expressions: what compiles, what it gives, and what is refused."""

from typing import Any

import pytest

from apimachinery.cel.environment import (
    ANY,
    BOOL,
    INT,
    MAP,
    STRING,
    STRINGS,
    CompileError,
    Environment,
    EvaluationError,
    structure,
)

ATTRIBUTES = structure("ResourceAttributes", {"namespace": STRING, "verb": STRING})
REQUEST = structure("SubjectAccessReviewSpec", {"user": STRING, "groups": STRINGS, "resourceAttributes": ATTRIBUTES})
ENVIRONMENT = Environment({"claims": MAP, "request": REQUEST, "anything": ANY})
VALUES: dict[str, Any] = {
    "claims": {"sub": "jane@example.com", "exp": 20, "nbf": 5, "groups": ["a", "b"], "nested": {"deep": [1, 2]}},
    "request": {"user": "jane", "groups": ["a"], "resourceAttributes": {"namespace": "team", "verb": "get"}},
    "anything": None,
}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("claims.sub", "jane@example.com"),
        ("claims.exp - claims.nbf <= 86400", True),
        ("claims.groups.exists(g, g == 'b')", True),
        ("claims.groups.map(g, 'x:' + g)", ["x:a", "x:b"]),
        ("has(claims.email) ? claims.email : 'none'", "none"),
        ("claims.?email_verified.orValue(true) == true", True),
        ("claims.nested.deep[1]", 2),
        ("claims.sub.split('@')[0].upperAscii()", "JANE"),
        ("claims.sub.find('[a-z]+@')", "jane@"),
        ("claims.sub.findAll('[a-e]+', 2)", ["a", "e"]),
        ("claims.groups.isSorted() && [3, 1].min() == 1 && [1, 2].sum() == 3 && [1.5].sum() == 1.5", True),
        ("sets.intersects(request.groups, ['a', 'z'])", True),
        ("has(request.resourceAttributes) && request.resourceAttributes.namespace == 'team'", True),
        ("cel.bind(name, request.user, name + name)", "janejane"),
        ("anything == null", True),
        ("claims.sub.matches('^(a+)+$')", False),
        ("{'sub': claims.sub}", {"sub": "jane@example.com"}),
    ],
)
def test_values(expression: str, value: Any) -> None:
    assert ENVIRONMENT.compile(expression).evaluate(VALUES) == value


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("clams.sub", "undeclared reference to 'clams"),
        ("1 + 'a'", "found no matching overload for '_\\+_' applied to '\\(int, string\\)'"),
        ("claims.", "Syntax error"),
        ("request.usr == 'a'", "undefined field 'usr'"),
        ("request.resourceAttributes.name == 'a'", "undefined field 'name'"),
        ("has(request.resourceAttributes.name)", "undefined field 'name'"),
        ("claims.groups.all(g, request.nothing == g)", "undefined field 'nothing'"),
        ("'" + "a" * 200_000 + "'", "longer than"),
        ("'text'", "must evaluate to bool"),
        ("claims.groups", None),
    ],
)
def test_what_does_not_compile(expression: str, problem: str | None) -> None:
    if problem is None:
        ENVIRONMENT.compile(expression, BOOL)  # of any type: known when it is evaluated
        return
    with pytest.raises(CompileError, match=problem):
        ENVIRONMENT.compile(expression, BOOL)


def test_one_of_several_types_will_do() -> None:
    assert ENVIRONMENT.compile("[request.user]", STRING, STRINGS).evaluate(VALUES) == ["jane"]
    with pytest.raises(CompileError, match="must evaluate to string or list"):
        ENVIRONMENT.compile("1", STRING, STRINGS)


def test_a_hidden_variable_is_another() -> None:
    program = ENVIRONMENT.compile("claims.groups.map(request, request)")
    assert program.variables == {"claims"}
    assert program.evaluate(VALUES) == ["a", "b"]


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("claims.nothing == 'a'", "no such key: nothing"),
        ("claims.sub > 3", "no such overload"),
        ("claims.groups[7] == 'a'", "ndex"),
        ("1 / (claims.exp - 20) == 1", "division by zero"),
        ("[].min() == 1", "min called on empty list"),
        ("optional.none()", ".+"),
    ],
)
def test_what_has_no_value(expression: str, problem: str) -> None:
    with pytest.raises(EvaluationError, match=problem):
        ENVIRONMENT.compile(expression).evaluate(VALUES)


def test_what_could_run_for_hours_is_not_begun() -> None:
    many = list(range(2000))
    values = {"anything": many}
    once = ENVIRONMENT.compile("anything.all(a, a >= 0)", BOOL)
    assert once.evaluate(values) is True
    cubed = ENVIRONMENT.compile("anything.all(a, anything.all(b, anything.all(c, a + b + c >= 0)))", BOOL)
    assert cubed.evaluate({"anything": [1, 2, 3]}) is True
    with pytest.raises(EvaluationError, match="actual cost limit exceeded"):
        cubed.evaluate(values)


def test_text_that_would_double_and_double_is_not_made() -> None:
    expression = "anything"
    for step in range(24):
        expression = f"cel.bind(x{step}, {expression}, x{step} + x{step})"
    doubling = ENVIRONMENT.compile(f"({expression}).size()", INT)
    with pytest.raises(EvaluationError, match="actual cost limit exceeded"):
        doubling.evaluate({"anything": "a" * 100})

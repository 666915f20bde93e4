"""Expressions of admission: what they may say, in upstream's words, and what they are worth for a request."""

from typing import Any

import pytest

from apimachinery.cel.environment import CompileError, EvaluationError
from controlplane.apiserver.admission.policy.evaluation import Answers, Budget, Evaluation, OutOfBudgetError
from controlplane.apiserver.admission.policy.expressions import BOOL, NULL, STRING, Compiler
from tests.unit.controlplane.apiserver.admission.policy.made import JANE, Authorizer, values

VARIABLES = {
    "replicas": "object.spec.replicas",
    "twice": "variables.replicas * 2",
    "gone": "object.spec.gone",
    "broken": "variables.unheard",
    "since": "[namespaceObject.metadata.creationTimestamp]",
}


async def value(expression: str, *results: str, authorizer: Authorizer | None = None, **more: Any) -> Any:
    compiler = Compiler(params=True)
    variables = {name: compiler.variable(name, text) for name, text in VARIABLES.items()}
    answers = Answers(JANE, authorizer or Authorizer())
    evaluation = Evaluation(values(params={"max": 5}, **more), answers, compiler, variables)
    return await evaluation.value(compiler.compile(expression, *results), Budget())


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("object.spec.replicas <= params.max", True),
        ("oldObject == null", True),
        ("has(object.spec.gone) || object.metadata.name == 'web'", True),
        (
            "request.operation == 'CREATE' && request.resource.version == 'v1' && request.kind.kind == 'Deployment'",
            True,
        ),
        ("request.userInfo.username + request.userInfo.groups[0] + request.userInfo.extra['role'][0]", "janeteamdev"),
        ("has(request.subResource) || request.options.kind != 'CreateOptions'", False),
        ("request.dryRun", False),
        ("namespaceObject.metadata.labels['tier']", "gold"),
        ("namespaceObject.metadata.creationTimestamp.getFullYear()", 2026),
        ("variables.twice + variables.replicas", 9),
        ("variables.since[0].getFullYear()", 2026),
        ("true || variables.gone == 1", True),
        ("authorizer.group('').resource('pods').check('get').allowed()", True),
        ("authorizer.requestResource.check('delete').allowed()", False),
        ("authorizer.requestResource.check('explode').error()", "broken"),
    ],
)
async def test_values(expression: str, expected: Any) -> None:
    assert await value(expression) == expected


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("object.spec.gone == 1", "expression 'object.spec.gone == 1' resulted in error: no such key: gone"),
        ("variables.gone == 1", 'resulted in error: composited variable "gone" fails to evaluate: no such key: gone'),
        (
            "variables.broken == 1",
            "composited variable \"broken\" fails to compile: compilation failed: ERROR: <input>:1:10: undefined field 'unheard'",
        ),
        ("[1, 2, 3].all(x, authorizer.path('/' + string(x)).check('get').allowed())", "actual cost limit exceeded"),
    ],
)
async def test_what_has_no_value(expression: str, problem: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        await value(expression)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("request.nme == 'a'", "compilation failed: ERROR: <input>:1:8: undefined field 'nme'"),
        ("request.name == 1", "found no matching overload for '_==_' applied to '(string, int)'"),
        ("namespaceObject.metadata.managedFields == null", "undefined field 'managedFields'"),
        ("variables.unheard", "undefined field 'unheard'"),
        ("variables.twice == 'a' || objct.x", "undeclared reference to 'objct' (in container '')"),
        ("object.spec.replicas", "must evaluate to bool but got dyn"),
        ("request.userInfo.groups", "must evaluate to bool but got list(string)"),
        ("request.userInfo", "must evaluate to bool but got kubernetes.UserInfo"),
        ("null", "must evaluate to bool but got null_type"),
    ],
)
async def test_what_does_not_compile(expression: str, problem: str) -> None:
    with pytest.raises(CompileError) as caught:
        await value(expression, BOOL)
    assert problem in str(caught.value)


async def test_one_of_several_types() -> None:
    assert await value("null", STRING, NULL) is None
    with pytest.raises(CompileError, match=r"must evaluate to one of \[string null_type\] but got int"):
        await value("1", STRING, NULL)


def test_a_variable_has_the_type_of_its_expression() -> None:
    compiler = Compiler()
    compiler.variable("name", "request.name")
    with pytest.raises(CompileError, match="found no matching overload"):
        compiler.compile("variables.name == 1", BOOL)


def test_without_authorizer_and_params() -> None:
    with pytest.raises(CompileError, match="undeclared reference to 'authorizer'"):
        Compiler().compile("authorizer.path('/').check('get').allowed()", BOOL, authorizer=False)
    with pytest.raises(CompileError, match="undeclared reference to 'params'"):
        Compiler().compile("params.x == 1", BOOL)


async def test_a_question_is_put_once() -> None:
    authorizer = Authorizer()
    compiler, answers = Compiler(), Answers(JANE, authorizer)
    evaluation = Evaluation(values(), answers, compiler)
    expression = compiler.compile("authorizer.serviceAccount('a', 'b').group('').resource('pods').check('get').allowed()", BOOL)
    assert [await evaluation.value(expression, Budget()) for _ in range(3)] == [True] * 3
    assert [(each.user.name, each.resource, each.api_version) for each in authorizer.asked] == [
        ("system:serviceaccount:a:b", "pods", "*")
    ]


async def test_the_budget_is_for_all() -> None:
    compiler = Compiler()
    evaluation = Evaluation(values(), Answers(JANE, Authorizer()), compiler)
    expression = compiler.compile("authorizer.path('/').check('get').allowed()", BOOL)
    budget = Budget(800_000)
    await evaluation.value(expression, budget)
    await evaluation.value(expression, budget)
    with pytest.raises(OutOfBudgetError, match="validation failed due to running out of cost budget"):
        await evaluation.value(expression, budget)

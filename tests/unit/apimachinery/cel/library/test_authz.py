"""Questions to the authorizer in expressions: upstream's examples, by whom they are asked, and what is wrong to ask."""

from collections.abc import Iterator
from typing import Any

import pytest

from apimachinery.cel.environment import AUTHORIZER, RESOURCE_CHECK, CompileError, Environment, EvaluationError
from apimachinery.cel.library import authz
from apimachinery.cel.library.authz import Answer, Question

ENVIRONMENT = Environment({"authorizer": AUTHORIZER, "authorizer.requestResource": RESOURCE_CHECK})
VALUES = {
    "authorizer": authz.authorizer(),
    "authorizer.requestResource": authz.resource_check(Question(group="apps", resource="deployments", namespace="team")),
}


class Scribe:
    """Writes down what it is asked, and allows what is not deleted."""

    def __init__(self) -> None:
        self.asked: list[Question] = []

    def __call__(self, question: Question) -> Answer:
        self.asked.append(question)
        return Answer(False, "no", "broken") if question.verb == "delete" else Answer(True, "yes")


@pytest.fixture
def scribe() -> Iterator[Scribe]:
    made = Scribe()
    with authz.answering(made):
        yield made


def value(expression: str) -> Any:
    return ENVIRONMENT.compile(expression).evaluate(VALUES)


@pytest.mark.parametrize(
    ("expression", "question"),
    [
        ("group('').resource('pods').check('get')", Question(resource="pods", verb="get")),
        (
            "group('apps').resource('deployments').subresource('scale').namespace('n').name('x').check('update')",
            Question(group="apps", resource="deployments", subresource="scale", namespace="n", name="x", verb="update"),
        ),
        ("path('/healthz').check('get')", Question(path="/healthz", verb="get")),
        (
            "serviceAccount('default', 'builder').group('').resource('secrets').check('list')",
            Question(service_account="default/builder", resource="secrets", verb="list"),
        ),
        (
            "group('').resource('pods').fieldSelector('spec.nodeName=a').labelSelector('app=b').check('list')",
            Question(resource="pods", field_selector="spec.nodeName=a", label_selector="app=b", verb="list"),
        ),
        ("requestResource.check('create')", Question(group="apps", resource="deployments", namespace="team", verb="create")),
    ],
)
def test_what_is_asked(scribe: Scribe, expression: str, question: Question) -> None:
    assert value(f"authorizer.{expression}.allowed()") is True
    assert scribe.asked == [question]


def test_what_is_answered(scribe: Scribe) -> None:
    checked = "authorizer.group('').resource('pods').check('delete')"
    assert value(f"[{checked}.allowed(), {checked}.errored()]") == [False, True]
    assert value(f"{checked}.error() + {checked}.reason()") == "brokenno"


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("authorizer.path('  ').check('get').allowed()", "path must not be empty"),
        ("authorizer.group('apps').resource('').check('get').allowed()", "resource must not be empty"),
        (
            "authorizer.serviceAccount('not@a#valid', 'name').path('/x').check('get').allowed()",
            "Invalid service account namespace",
        ),
        ("authorizer.serviceAccount('default', 'not@valid').path('/x').check('get').allowed()", "Invalid service account name"),
    ],
)
def test_what_cannot_be_asked(scribe: Scribe, expression: str, problem: str) -> None:
    with pytest.raises(EvaluationError, match=problem):
        value(expression)


@pytest.mark.parametrize(
    "expression",
    ["authorizer.group('').check('get')", "authorizer.check('get')", "authorizer.path('/x').allowed()", "authorizer.name('x')"],
)
def test_the_order_of_questions(expression: str) -> None:
    with pytest.raises(CompileError, match="found no matching overload"):
        ENVIRONMENT.compile(expression)


def test_nobody_makes_a_decision() -> None:
    with pytest.raises(CompileError, match="undeclared reference"):
        ENVIRONMENT.compile("kubernetes.authorization.Decision{}")

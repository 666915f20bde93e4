"""One request's expressions evaluated: variables when they are needed, questions to the authorizer between two tries, a budget.

An evaluation cannot wait. When it meets a question that nobody has answered yet, the question is noted, answered, and the
expression evaluated again, so that expressions without such questions never give up the loop. Upstream:
``plugin/cel/activation.go``, ``composition.go`` and ``plugin/authorizer``.
"""

import re
from collections.abc import Mapping
from typing import Any

from apimachinery import fields, labels
from apimachinery.cel import cost
from apimachinery.cel.environment import TOO_COSTLY, EvaluationError, Inputs
from apimachinery.cel.library import authz
from apimachinery.cel.values import given_back
from controlplane.apiserver.admission.policy.expressions import VARIABLES, Compiler, Expression
from controlplane.apiserver.authentication.interface import UserInfo
from controlplane.apiserver.authorization.interface import Attributes, Authorizer, Decision

BUDGET = 10_000_000
"""What the expressions of one policy may cost for one request and parameter: upstream's ``RuntimeCELCostBudget``."""
MATCH_BUDGET = BUDGET // 4
"""What match conditions may cost."""
OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"
_PER_CHECK = 350_000
_MISSING = re.compile(r'No value with name "variables\.([^"]*)"')


class OutOfBudgetError(Exception):
    def __init__(self) -> None:
        super().__init__(OUT_OF_BUDGET)


class Budget:
    def __init__(self, amount: int = BUDGET) -> None:
        self.left = amount

    def spend(self, amount: int) -> None:
        """Raises OutOfBudgetError."""
        if amount > self.left:
            raise OutOfBudgetError
        self.left -= amount


class Answers:
    """What the authorizer has said in the course of one request; each question is put to it once."""

    def __init__(self, user: UserInfo, authorizer: Authorizer) -> None:
        self._user, self._authorizer = user, authorizer
        self._known: dict[authz.Question, authz.Answer] = {}
        self._open: dict[authz.Question, None] = {}
        self.asked = 0

    def __call__(self, question: authz.Question) -> authz.Answer:
        self.asked += 1
        if question not in self._known:
            self._open[question] = None
            raise ValueError("not answered yet")
        return self._known[question]

    def begin(self) -> None:
        self.asked = 0
        self._open.clear()

    async def settle(self) -> bool:
        """Answers what was asked in vain; False when nothing was."""
        for question in self._open:
            self._known[question] = await self._answer(question)
        return bool(self._open)

    async def _answer(self, question: authz.Question) -> authz.Answer:
        try:
            decision, reason = await self._authorizer.authorize(_attributes(question, self._user))
        except Exception as error:
            return authz.Answer(False, "", str(error) or type(error).__name__)
        return authz.Answer(decision is Decision.ALLOW, reason)


class Values(dict[str, Any]):
    """The values of one request and parameter, for several policies: converted once."""

    inputs: Inputs | None = None


class Evaluation:
    """The values of one request (``view.values_of``) and parameter, and what became of the policy's variables."""

    def __init__(
        self, values: Mapping[str, Any], answers: Answers, compiler: Compiler, variables: Mapping[str, Expression] | None = None
    ) -> None:
        self._values = values if isinstance(values, Values) else Values(values)
        self._answers = answers
        self._compiler = compiler
        self._variables = variables or {}
        self._done: set[str] = set()
        self._failed: dict[str, str] = {}

    async def value(self, expression: Expression, budget: Budget) -> Any:
        """Raises EvaluationError in upstream's words, OutOfBudgetError."""
        if expression.program is None:
            raise EvaluationError(f"compilation error: {expression.problem}")
        try:
            return await self._evaluate(expression, budget)
        except EvaluationError as error:
            raise EvaluationError(f"expression '{expression.text}' resulted in error: {error}") from None

    async def _evaluate(self, expression: Expression, budget: Budget) -> Any:
        program = expression.program
        assert program is not None
        for name in program.variables:
            if name.startswith(VARIABLES):
                await self._settle(name.removeprefix(VARIABLES), budget)
        inputs, answers = self._values.inputs, self._answers
        if inputs is None:
            inputs = self._values.inputs = self._compiler.plain(expression.text).inputs(self._values)
        while True:
            answers.begin()
            failure: EvaluationError | None = None
            value = None
            with authz.answering(answers):
                try:
                    value = program.evaluate(inputs)
                except EvaluationError as error:
                    failure = error
            spent = program.bound(inputs) + answers.asked * _PER_CHECK
            if spent > cost.PER_CALL:
                failure = EvaluationError(TOO_COSTLY)
            elif await answers.settle():
                continue
            budget.spend(min(spent, cost.PER_CALL))
            if failure is None:
                return value
            missing = _MISSING.search(str(failure))
            raise EvaluationError(self._failed.get(missing[1], str(failure)) if missing else str(failure))

    async def _settle(self, name: str, budget: Budget) -> None:
        """The value of a variable, at its first use; one that has none is missed only where it is needed."""
        if name in self._done:
            return
        self._done.add(name)
        expression = self._variables.get(name)
        if expression is None:
            return
        if expression.program is None:
            self._failed[name] = f'composited variable "{name}" fails to compile: {expression.problem}'
            return
        try:
            found = given_back(await self._evaluate(expression, budget))
            self._values = Values(self._values, **{VARIABLES + name: found})
        except EvaluationError as error:
            self._failed[name] = f'composited variable "{name}" fails to evaluate: {error}'


def _attributes(question: authz.Question, user: UserInfo) -> Attributes:
    if question.service_account:
        namespace, _, name = question.service_account.partition("/")
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        user = UserInfo(f"system:serviceaccount:{namespace}:{name}", groups=groups)
    if question.path:
        return Attributes(user, question.verb, question.path, is_resource=False)
    return Attributes(
        user,
        question.verb,
        api_group=question.group,
        api_version="*",
        resource=question.resource,
        subresource=question.subresource,
        namespace=question.namespace,
        name=question.name,
        field_selector=_readable(question.field_selector, fields.parse),
        label_selector=_readable(question.label_selector, labels.parse),
    )


def _readable(selector: str, parse: Any) -> str:
    """A selector that cannot be read narrows nothing."""
    try:
        parse(selector)
    except ValueError:
        return ""
    return selector

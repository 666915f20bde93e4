"""One ValidatingAdmissionPolicy, compiled, and what it decides of one write and parameter.

Called by ``validating``. Upstream: ``plugin/policy/validating/validator.go``.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apimachinery.cel.environment import EvaluationError
from controlplane.apiserver.admission.condition_metrics import ConditionMetrics
from controlplane.apiserver.admission.policy.conditions import MatchConditions
from controlplane.apiserver.admission.policy.evaluation import Answers, Budget, Evaluation, OutOfBudgetError
from controlplane.apiserver.admission.policy.expressions import BOOL, NULL, STRING, Compiler, Expression

Object = dict[str, Any]
MAX_MESSAGE = 5 * 1024  # bytes, of what a messageExpression makes
INVALID = "Invalid"


@dataclass(frozen=True, slots=True)
class Decision:
    """Of one validation. ``failed`` is one that has no value; ``denied`` says what the failure policy makes of that."""

    denied: bool
    failed: bool = False
    message: str = ""
    reason: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Note:
    """An audit annotation: a value to publish, or why there is none where that refuses the write."""

    key: str
    value: str = ""
    error: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Result:
    decisions: list[Decision] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Validation:
    expression: Expression
    text: str
    message: str
    message_expression: Expression | None
    reason: str


class Validator:
    """``compile_policy`` of a source; an expression that does not compile has no value."""

    def __init__(self, policy: Mapping[str, Any], metrics: ConditionMetrics) -> None:
        spec = policy["spec"]
        self._name, self._metrics = policy["metadata"]["name"], metrics
        self._fails = spec.get("failurePolicy") != "Ignore"
        compiler = self._compiler = Compiler(params=bool(spec.get("paramKind")))
        self._variables = {each["name"]: compiler.variable(each["name"], each["expression"]) for each in _of(spec, "variables")}
        self._conditions = MatchConditions(_of(spec, "matchConditions"), compiler, fail=self._fails)
        self._validations = [_validation(each, compiler) for each in _of(spec, "validations")]
        self._notes = [
            (each["key"], compiler.stored(each["valueExpression"], STRING, NULL)) for each in _of(spec, "auditAnnotations")
        ]

    async def validate(self, values: Mapping[str, Any], answers: Answers) -> Result:
        evaluation = Evaluation(values, answers, self._compiler, self._variables)
        if self._conditions:
            where = (self._name, "policy", "validate", values["request"]["operation"])
            match = await self._metrics.watch(where, self._conditions.match(evaluation))
            if match.error:
                return self._error(match.error)
            if not match.matches:
                return Result()
        try:
            budget = Budget()
            decisions = [await self._decide(each, evaluation, budget) for each in self._validations]
            budget = Budget()
            notes = [note for key, each in self._notes if (note := await self._note(key, each, evaluation, budget)) is not None]
        except OutOfBudgetError as error:
            return self._error(str(error))
        return Result(decisions, notes)

    def _error(self, message: str) -> Result:
        return Result([Decision(self._fails, True, message)])

    async def _decide(self, validation: _Validation, evaluation: Evaluation, budget: Budget) -> Decision:
        begun = time.perf_counter()
        try:
            value = await evaluation.value(validation.expression, budget)
        except EvaluationError as error:
            return Decision(self._fails, True, str(error), "", time.perf_counter() - begun)
        seconds = time.perf_counter() - begun
        if value is True:
            return Decision(False, seconds=seconds)
        try:
            message = await _message(validation, evaluation, budget)
        except OutOfBudgetError as error:
            return Decision(self._fails, True, f"failed messageExpression: {error}", "", seconds)
        return Decision(True, False, message, validation.reason, seconds)

    async def _note(self, key: str, expression: Expression, evaluation: Evaluation, budget: Budget) -> Note | None:
        begun = time.perf_counter()
        try:
            value = await evaluation.value(expression, budget)
        except EvaluationError as error:
            return Note(key, "", str(error), time.perf_counter() - begun) if self._fails else None
        text = value.strip() if isinstance(value, str) else ""
        return Note(key, text, "", time.perf_counter() - begun) if text else None


def _of(spec: Mapping[str, Any], member: str) -> list[Object]:
    return spec.get(member) or []


def _validation(given: Object, compiler: Compiler) -> _Validation:
    """Messages may not ask the authorizer."""
    written = given.get("messageExpression")
    return _Validation(
        compiler.stored(given["expression"], BOOL),
        given["expression"].strip(),
        (given.get("message") or "").strip(),
        compiler.stored(written, STRING, authorizer=False) if written else None,
        given.get("reason") or INVALID,
    )


async def _message(validation: _Validation, evaluation: Evaluation, budget: Budget) -> str:
    """What the message's expression makes, if that is one line and not too long; else the message; else the expression."""
    if validation.message_expression is not None:
        try:
            made = await evaluation.value(validation.message_expression, budget)
        except EvaluationError:
            made = None
        text = made.strip() if isinstance(made, str) else ""
        if text and "\n" not in text and len(text.encode()) <= MAX_MESSAGE:
            return text
    return validation.message or f"failed expression: {validation.text}"

"""One MutatingAdmissionPolicy, compiled, and what its mutations make of an object.

Called by ``revision``. Upstream: ``plugin/policy/mutating/compilation.go`` and ``patch``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apimachinery.cel.environment import EvaluationError
from apimachinery.schema.types import StructSchema
from controlplane.apiserver.admission.condition_metrics import ConditionMetrics
from controlplane.apiserver.admission.policy import changes
from controlplane.apiserver.admission.policy.changes import ChangeError
from controlplane.apiserver.admission.policy.conditions import Match, MatchConditions
from controlplane.apiserver.admission.policy.evaluation import Answers, Budget, Evaluation, OutOfBudgetError
from controlplane.apiserver.admission.policy.expressions import Compiler, Expression
from controlplane.apiserver.admission.policy.mutations import APPLY, stored_mutation

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Mutation:
    kind: str
    expression: Expression


class Mutator:
    """``compile_policy`` of a source; an expression that does not compile has no value."""

    def __init__(self, policy: Mapping[str, Any], metrics: ConditionMetrics) -> None:
        spec = policy["spec"]
        self._name, self._metrics = policy["metadata"]["name"], metrics
        compiler = self._compiler = Compiler(params=bool(spec.get("paramKind")))
        self._variables = {
            each["name"]: compiler.variable(each["name"], each["expression"]) for each in spec.get("variables") or ()
        }
        fails = spec.get("failurePolicy") != "Ignore"
        self.conditions = MatchConditions(spec.get("matchConditions") or (), compiler, fail=fails)
        self._mutations = [_mutation(each, compiler) for each in spec.get("mutations") or ()]

    def __len__(self) -> int:
        """How many mutations there are."""
        return len(self._mutations)

    async def match(self, values: Mapping[str, Any], answers: Answers) -> Match:
        """Whether the match conditions hold."""
        where = (self._name, "policy", "validate", values["request"]["operation"])  # upstream's step, though it is not that
        evaluation = Evaluation(values, answers, self._compiler, self._variables)
        return await self._metrics.watch(where, self.conditions.match(evaluation))

    async def change(self, index: int, obj: Object, values: Mapping[str, Any], answers: Answers, schema: StructSchema) -> Object:
        """``obj`` after one mutation, with a budget of its own; ``values`` are of this very object.

        Raises ChangeError, StatusError.
        """
        mutation = self._mutations[index]
        if mutation.expression.program is None:
            raise ChangeError(mutation.expression.problem)
        try:
            value = await Evaluation(values, answers, self._compiler, self._variables).value(mutation.expression, Budget())
        except (EvaluationError, OutOfBudgetError) as error:
            raise ChangeError(str(error)) from None
        if mutation.kind == APPLY:
            return changes.configured(obj, value, schema)
        return changes.patched(obj, value, schema)


def _mutation(given: Object, compiler: Compiler) -> _Mutation:
    kind = given["patchType"]
    held = given.get("applyConfiguration" if kind == APPLY else "jsonPatch") or {}
    return _Mutation(kind, stored_mutation(compiler, held.get("expression") or "", kind))

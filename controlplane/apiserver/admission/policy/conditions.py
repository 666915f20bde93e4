"""Match conditions: whether a request is one that a policy or a webhook is meant for.

Upstream: ``plugin/webhook/matchconditions``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from apimachinery.cel.environment import EvaluationError
from controlplane.apiserver.admission.policy.evaluation import MATCH_BUDGET, Budget, Evaluation, OutOfBudgetError
from controlplane.apiserver.admission.policy.expressions import BOOL, Compiler, Expression


@dataclass(frozen=True, slots=True)
class Match:
    """``error`` says why nobody can tell, where a failure counts; ``failed`` counts the conditions without a value."""

    matches: bool
    error: str = ""
    condition: str = ""  # the name of the one that is false
    failed: int = 0


class MatchConditions:
    """Compiled once; ``fail`` is whether ``failurePolicy`` is Fail."""

    def __init__(self, conditions: Iterable[Mapping[str, Any]], compiler: Compiler, *, fail: bool) -> None:
        self._conditions: list[tuple[str, Expression]] = [
            (each.get("name") or "", compiler.stored(each["expression"], BOOL)) for each in conditions
        ]
        self._fail = fail

    def __bool__(self) -> bool:
        return bool(self._conditions)

    async def match(self, evaluation: Evaluation) -> Match:
        """One that is false decides; else one that has no value does, as the failure policy says."""
        errors: list[str] = []
        budget = Budget(MATCH_BUDGET)
        results: list[tuple[str, Any]] = []
        try:
            for name, expression in self._conditions:
                try:
                    results.append((name, await evaluation.value(expression, budget)))
                except EvaluationError as error:
                    errors.append(str(error))
        except OutOfBudgetError as error:
            return Match(False, str(error) if self._fail else "")
        for name, value in results:
            if value is False:
                return Match(False, "", name, len(errors))
        if not errors:
            return Match(True)
        distinct = list(dict.fromkeys(errors))
        text = distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"
        return Match(False, text if self._fail else "", "", len(errors))

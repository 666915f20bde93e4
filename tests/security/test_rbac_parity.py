"""Default roles allow what upstream's allow: its own server's answers, and a reason for each of ours that differs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.security.rbac_parity.ask import answers, bind_holders
from tests.security.rbac_parity.differences import DIFFERENCES
from tests.security.rbac_parity.questions import Question, questions
from tests.support.apiserver import running_apiserver
from tests.support.control_plane import eventually

TABLE = Path(__file__).parent / "rbac_parity" / "answers.tsv"


def recorded() -> Iterator[tuple[Question, bool]]:
    for line in TABLE.read_text().splitlines():
        *fields, answer = line.split("\t")
        yield Question(*fields), answer == "yes"


def test_the_table_answers_every_question() -> None:
    assert [question for question, _ in recorded()] == questions()
    assert len(questions()) >= 300


async def test_ours_answers_as_upstream_does_or_says_why_not() -> None:
    async with running_apiserver() as server:

        async def post(path: str, body: Any) -> tuple[int, Any]:
            answer = await server.request("POST", path, body)
            return answer.status, answer.json

        async def bound() -> bool:
            question = Question("holder:system:auth-delegator", "create", "authentication.k8s.io", "tokenreviews")
            review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": question.spec()}
            return bool((await post("/apis/authorization.k8s.io/v1/subjectaccessreviews", review))[1]["status"]["allowed"])

        await bind_holders(post)
        await eventually(bound)
        ours = dict(await answers(post))
    differing = {question for question, answer in recorded() if ours[question] is not answer}
    unexplained = [asked for asked in differing if not any(each.covers(asked) for each in DIFFERENCES)]
    assert sorted(unexplained) == []
    idle = [each.why for each in DIFFERENCES if not any(each.covers(asked) for asked in differing)]
    assert idle == []

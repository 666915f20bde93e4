"""What there is, when some of those who are asked do not answer, or say nonsense."""

import orjson
import pytest

from apimachinery.errors import StatusError, make_status
from apimachinery.gvk import GroupVersionResource
from controlplane.controllers.lib.discovery import Discovered, discover

_WIDGETS = {"name": "widgets", "kind": "Widget", "namespaced": True, "verbs": ["list"]}


class Servers:
    """A client whose answers are given by path; an exception is raised."""

    def __init__(self, answers: dict[str, bytes | Exception]) -> None:
        self._answers = answers

    async def raw(self, method: str, path: str, **options: object) -> bytes:
        answer = self._answers[path]
        if isinstance(answer, Exception):
            raise answer
        return answer


async def found(answer: bytes | Exception) -> Discovered:
    group = {"name": "odd.example", "versions": [{"groupVersion": "odd.example/v1"}]}
    lists = orjson.dumps({"resources": [_WIDGETS]})
    answers = {"/apis": orjson.dumps({"groups": [group]}), "/api/v1": lists, "/apis/odd.example/v1": answer}
    return await discover(Servers(answers))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(StatusError(make_status(503, "", "service unavailable")), id="unavailable"),
        pytest.param(ConnectionError("refused"), id="unreachable"),
        pytest.param(b"<html>", id="no-json"),
        pytest.param(b"[]", id="no-object"),
        pytest.param(b'{"resources": [{"kind": "Nameless"}]}', id="no-names"),
        pytest.param(b'{"resources": ["widgets"]}', id="no-rows"),
    ],
)
async def test_a_group_that_cannot_be_read_hides_no_other(answer: bytes | Exception) -> None:
    seen = await found(answer)
    assert [each.gvr for each in seen.resources] == [GroupVersionResource("", "v1", "widgets")]
    assert list(seen.failures) == ["odd.example/v1"]


async def test_all_that_answer_are_had() -> None:
    seen = await found(orjson.dumps({"resources": [{**_WIDGETS, "name": "others"}]}))
    assert [each.gvr.group_resource for each in seen.resources] == ["widgets", "others.odd.example"]
    assert seen.failures == {}

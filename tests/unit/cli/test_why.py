"""The command line of ``why``: which words go together, what completes, and what its exit status says."""

import click
import pytest

from cli.why import Question, _status, complete_kind, why
from why.cause import Explanation, State

AT = {"namespace": "", "everything": False, "all_namespaces": False, "user": None, "groups": (), "subresource": ""}


def question(*words: str, **more: object) -> Question:
    return Question(words, **{**AT, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(question("pod/web"), id="an object"),
        pytest.param(question(everything=True, all_namespaces=True), id="everything"),
        pytest.param(question("can-not", "get", "pods", user="jane", subresource="log"), id="a right"),
        pytest.param(question("can-not", "get", "pods", user="jane", all_namespaces=True), id="a right everywhere"),
    ],
)
def test_questions_that_make_sense(asked: Question) -> None:
    asked.check()


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        pytest.param(question(), "give either KIND/NAME, or --all", id="nothing"),
        pytest.param(question("pod/a", "pod/b"), "give either", id="two objects"),
        pytest.param(question("pod/a", everything=True), "give either", id="an object and everything"),
        pytest.param(question("pod/a", all_namespaces=True), "give either", id="an object of all namespaces"),
        pytest.param(
            question("pod/a", user="jane"), "--as, --as-group and --subresource go with can-not", id="an object as somebody"
        ),
        pytest.param(question("can-not", "get", "pods"), "the form is: why --as USER can-not", id="a right of nobody"),
        pytest.param(question("can-not", "get", user="jane"), "the form is", id="a right to nothing"),
    ],
)
def test_words_that_do_not_go_together_are_refused(asked: Question, says: str) -> None:
    with pytest.raises(click.UsageError, match=says):
        asked.check()


def test_kinds_are_completed() -> None:
    found = complete_kind(click.Context(why), why.params[0], "statef")

    assert [each.value for each in found] == ["statefulset/"]


@pytest.mark.parametrize(
    ("states", "asked", "code"),
    [
        ([State.WELL], True, 0),
        ([State.UNWELL], True, 1),
        ([State.WAITING], True, 1),
        ([State.UNKNOWN], True, 3),
        ([], False, 0),
        ([State.UNWELL, State.WAITING], False, 1),
    ],
)
def test_the_exit_status_tells_the_state(states: list[State], asked: bool, code: int) -> None:
    assert _status([Explanation("pod/web", "shop", each, "") for each in states], asked) == code

"""Questions to the authorizer. Upstream's ``library.Authz`` and ``library.AuthzSelectors``.

A value is what has been asked so far, as JSON. An evaluation cannot wait for an authorizer, so that answers are got beforehand:
:func:`answering` names who knows them for the time of an evaluation. Whoever is asked what it does not know yet notes the
question, raises, and has the expression evaluated again when it has the answer: expressions change nothing.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import orjson

from apimachinery import names
from apimachinery.cel import values
from apimachinery.cel.library.declare import BOOL, STRING, Overload, T


@dataclass(frozen=True, slots=True)
class Question:
    """``service_account`` is ``namespace/name``, or empty for who has sent the request. With a path it is about no resource."""

    service_account: str = ""
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""
    verb: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    allowed: bool
    reason: str = ""
    error: str = ""


Answers = Callable[[Question], Answer]
_answers: ContextVar[Answers | None] = ContextVar("answers", default=None)
_AUTHORIZER, _PATH, _GROUP, _RESOURCE, _DECISION = (
    T(name) for name in (values.AUTHORIZER, values.PATH_CHECK, values.GROUP_CHECK, values.RESOURCE_CHECK, values.DECISION)
)


@contextlib.contextmanager
def answering(answers: Answers) -> Iterator[None]:
    """For the evaluations inside the block, ``answers`` is asked."""
    token = _answers.set(answers)
    try:
        yield
    finally:
        _answers.reset(token)


@cache
def authorizer() -> Any:
    """The value of the variable ``authorizer``."""
    return _made(_AUTHORIZER, Question())


def resource_check(question: Question) -> Any:
    """The value of the variable ``authorizer.requestResource``."""
    return _made(_RESOURCE, question)


def _made(kind: T, question: Question) -> Any:
    return values.make(kind.name, orjson.dumps(question).decode())


def _of(value: Any) -> Question:
    return Question(**orjson.loads(values.text_of(value)))


def _path(value: Any, path: str) -> Any:
    if not path.strip():
        raise ValueError("path must not be empty")
    return _made(_PATH, replace(_of(value), path=path))


def _resource(value: Any, resource: str) -> Any:
    if not resource.strip():
        raise ValueError("resource must not be empty")
    return _made(_RESOURCE, replace(_of(value), resource=resource))


def _service_account(value: Any, namespace: str, name: str) -> Any:
    if names.is_dns1123_subdomain(name):
        raise ValueError("Invalid service account name")
    if names.is_dns1123_label(namespace):
        raise ValueError("Invalid service account namespace")
    return _made(_AUTHORIZER, Question(service_account=f"{namespace}/{name}"))


def _with(field: str, kind: T) -> Callable[[Any, str], Any]:
    return lambda value, text: _made(kind, replace(_of(value), **{field: text}))


def _check(value: Any, verb: str) -> Any:
    answers = _answers.get()
    if answers is None:
        raise ValueError("no such overload")
    return values.make(values.DECISION, orjson.dumps(answers(replace(_of(value), verb=verb))).decode())


def _answer(value: Any) -> Answer:
    return Answer(**orjson.loads(values.text_of(value)))


OVERLOADS = (
    Overload("path", "authorizer_path", (_AUTHORIZER, STRING), _PATH, _path, True),
    Overload("group", "authorizer_group", (_AUTHORIZER, STRING), _GROUP, _with("group", _GROUP), True),
    Overload("serviceAccount", "authorizer_serviceaccount", (_AUTHORIZER, STRING, STRING), _AUTHORIZER, _service_account, True),
    Overload("resource", "groupcheck_resource", (_GROUP, STRING), _RESOURCE, _resource, True),
    Overload("subresource", "resourcecheck_subresource", (_RESOURCE, STRING), _RESOURCE, _with("subresource", _RESOURCE), True),
    Overload("namespace", "resourcecheck_namespace", (_RESOURCE, STRING), _RESOURCE, _with("namespace", _RESOURCE), True),
    Overload("name", "resourcecheck_name", (_RESOURCE, STRING), _RESOURCE, _with("name", _RESOURCE), True),
    Overload(
        "fieldSelector", "authorizer_fieldselector", (_RESOURCE, STRING), _RESOURCE, _with("field_selector", _RESOURCE), True
    ),
    Overload(
        "labelSelector", "authorizer_labelselector", (_RESOURCE, STRING), _RESOURCE, _with("label_selector", _RESOURCE), True
    ),
    Overload("check", "pathcheck_check", (_PATH, STRING), _DECISION, _check, True),
    Overload("check", "resourcecheck_check", (_RESOURCE, STRING), _DECISION, _check, True),
    Overload("allowed", "decision_allowed", (_DECISION,), BOOL, lambda value: _answer(value).allowed, True),
    Overload("reason", "decision_reason", (_DECISION,), STRING, lambda value: _answer(value).reason, True),
    Overload("errored", "decision_errored", (_DECISION,), BOOL, lambda value: bool(_answer(value).error), True),
    Overload("error", "decision_error", (_DECISION,), STRING, lambda value: _answer(value).error, True),
)

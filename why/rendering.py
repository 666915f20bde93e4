"""Explanations as text for people, and as values for ``-o json``. Called by ``cli.why``.

Logs and events say what whoever wrote them wanted: what would command a terminal is shown, not sent to it.
"""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from why.cause import Cause, Explanation, State

_NARROWEST = 40
# In caret notation, as kubectl does it; wrapping sees to tabs and line breaks.
_SHOWN = {code: f"^{chr(code ^ 0x40)}" for code in (*range(0x20), 0x7F) if chr(code) not in "\t\n\v\f\r"}
_SHOWN |= {code: f"\\x{code:02x}" for code in range(0x80, 0xA0)}
MARKS = {State.WELL: "ok", State.WAITING: "waiting", State.UNWELL: "unwell", State.UNKNOWN: "unknown"}


def tree(answer: Explanation, width: int = 110) -> str:
    """The tree: causes branch, evidence stands under its cause behind a dot, what to do behind an arrow."""
    head = f"{answer.where}: {answer.summary}"
    lines = textwrap.wrap(harmless(head), width, subsequent_indent="  ")
    if answer.state is State.WELL and not answer.causes:
        lines.append("nothing is wrong with it")
    return "\n".join([*lines, *_branches(answer.causes, "", width)])


def _branches(causes: Sequence[Cause], indent: str, width: int) -> Iterator[str]:
    for number, cause in enumerate(causes):
        last = number == len(causes) - 1
        yield from _cause(cause, indent, last, width)


def _cause(cause: Cause, indent: str, last: bool, width: int) -> Iterator[str]:
    below = indent + ("   " if last else "│  ")
    inner = below + ("│  " if cause.causes else "   ")
    yield from _wrapped(cause.says, indent + ("└─ " if last else "├─ "), inner, width)
    for each in cause.evidence:
        yield from _wrapped(each, f"{inner}· ", f"{inner}  ", width)
    if cause.step:
        yield from _wrapped(cause.step, f"{inner}→ ", f"{inner}  ", width)
    yield from _branches(cause.causes, below, width)


def _wrapped(text: str, first: str, rest: str, width: int) -> Iterator[str]:
    """Long words, as commands and names are, stay whole."""
    room = max(width, len(rest) + _NARROWEST)
    yield from textwrap.wrap(
        harmless(text), room, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    ) or [first.rstrip()]


def harmless(text: str) -> str:
    """The text with its control characters written out."""
    return text.translate(_SHOWN)


def forest(answers: Iterable[Explanation], width: int = 110) -> str:
    return "\n\n".join(tree(each, width) for each in answers)


def as_json(answer: Explanation) -> dict[str, Any]:
    """The stable form: fields are only ever added."""
    return {
        "subject": answer.subject,
        "namespace": answer.namespace,
        "state": str(answer.state),
        "summary": answer.summary,
        "causes": [_cause_json(each) for each in answer.causes],
    }


def _cause_json(cause: Cause) -> dict[str, Any]:
    made: dict[str, Any] = {"says": cause.says}
    if cause.about:
        made["about"] = cause.about
    if cause.evidence:
        made["evidence"] = list(cause.evidence)
    if cause.step:
        made["step"] = cause.step
    if cause.causes:
        made["causes"] = [_cause_json(each) for each in cause.causes]
    return made

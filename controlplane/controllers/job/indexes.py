"""Completion indexes as Jobs write them: ``0,2-4,7``. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from apimachinery.meta import annotations_of

ANNOTATION = "batch.kubernetes.io/job-completion-index"


def parse(text: str) -> set[int]:
    """What cannot be read counts as nothing."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found.update(range(int(first), int(last or first) + 1))
    return found


def show(indexes: Iterable[int]) -> str:
    """Runs of three and more become ranges, as do pairs: ``1,2`` is written ``1,2`` and ``1-3`` as a range."""
    parts: list[str] = []
    run: list[int] = []
    for number in [*sorted(indexes), None]:
        if run and number != run[-1] + 1:
            parts += [str(each) for each in run] if len(run) < 3 else [f"{run[0]}-{run[-1]}"]
            run = []
        if number is not None:
            run.append(number)
    return ",".join(parts)


def of_pod(pod: Mapping[str, Any]) -> int:
    """The pod's index; -1 without one."""
    text = annotations_of(pod).get(ANNOTATION, "")
    return int(text) if text.isdecimal() else -1

"""Outcomes of plugins as values. Success is ``None``, so that the common case costs nothing."""

from dataclasses import dataclass
from enum import Enum


class Code(Enum):
    """What happens next depends on this alone."""

    UNSCHEDULABLE = "unschedulable"
    """Not now; removing other pods might help, so preemption is tried."""
    UNRESOLVABLE = "unresolvable"
    """Not now, and removing pods would not help."""
    WAIT = "wait"
    """Only from Permit: ask again later."""
    SKIP = "skip"
    """Only from PreFilter and Bind: this plugin has no say about this pod."""
    ERROR = "error"
    """Something broke: try again."""


@dataclass(frozen=True, slots=True)
class Status:
    """``reasons`` are shown to people and counted over nodes."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def rejects(self) -> bool:
        return self.code in (Code.UNSCHEDULABLE, Code.UNRESOLVABLE)

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)


SKIP = Status(Code.SKIP)


def unschedulable(plugin: str, *reasons: str) -> Status:
    return Status(Code.UNSCHEDULABLE, reasons, plugin)


def unresolvable(plugin: str, *reasons: str) -> Status:
    return Status(Code.UNRESOLVABLE, reasons, plugin)

"""The answer: an object, how it is, and the tree of causes. Made by explainers, shown by ``rendering``."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How an object is. Only WELL says that nothing is wrong."""

    WELL = "well"
    WAITING = "waiting"
    """On its way: nothing is known to be broken, and time alone may help."""
    UNWELL = "unwell"
    UNKNOWN = "unknown"
    """What was read does not tell, most often because some of it may not be read."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One link of the chain: what is so, by which evidence, what to do about it, and what it comes from."""

    says: str
    evidence: tuple[str, ...] = ()
    step: str = ""
    """What to do next, most often a command. Best on the deepest cause."""
    causes: tuple["Cause", ...] = ()
    about: str = ""
    """The object whose own explanation this is, as ``Explanation.where`` names it; empty for a mere cause."""

    def walk(self) -> Iterator["Cause"]:
        yield self
        for each in self.causes:
            yield from each.walk()


@dataclass(frozen=True, slots=True)
class Explanation:
    """``subject`` is ``pod/web``; ``namespace`` is empty for what has none."""

    subject: str
    namespace: str
    state: State
    summary: str
    causes: tuple[Cause, ...] = ()

    @property
    def where(self) -> str:
        return f"{self.subject} in {self.namespace}" if self.namespace else self.subject

    def as_cause(self) -> Cause:
        """As a link in the chain of another object."""
        return Cause(f"{self.subject}: {self.summary}", causes=self.causes, about=self.where)

    def walk(self) -> Iterator[Cause]:
        for each in self.causes:
            yield from each.walk()

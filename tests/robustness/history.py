"""What clients did and what they were told: written by ``traffic``, judged by ``checker``.

Times are of one monotonic clock. Every write puts a value into its object that no other write uses, so that what is read
tells whose write it was.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

OK, REFUSED, UNKNOWN = "ok", "refused", "unknown"  # unknown: the connection broke before an answer came


@dataclass(frozen=True, slots=True)
class State:
    """An object as far as the checker cares."""

    uid: str
    value: str
    color: str
    deleting: bool = False
    held: bool = False  # by a finalizer


@dataclass(slots=True)
class Write:
    """One attempt to change an object."""

    verb: str  # create, update, patch, delete
    key: str
    started: float
    value: str = ""  # what it writes; empty for deletions
    expected: int = 0  # the resourceVersion that it was made from, when it named one
    uid: str = ""  # the uid that it named as a precondition
    ended: float = float("inf")
    outcome: str = UNKNOWN
    code: int = 0
    revision: int = 0  # of what was stored; 0 for an object that went away, whose answer names none
    state: State | None = None  # as answered


@dataclass(frozen=True, slots=True)
class Read:
    """A consistent list of everything, in one piece or in pages."""

    started: float
    ended: float
    revision: int
    objects: dict[str, tuple[int, State]]  # by key: resourceVersion and state


@dataclass(frozen=True, slots=True)
class Seen:
    """One event of a watch."""

    type: str
    key: str
    revision: int
    state: State


@dataclass(slots=True)
class Watched:
    """One watch of a client, taken up again where it was after every interruption.

    ``color`` is its label selector, if any. ``initial`` is the state that it began with at ``start``, when it asked for one.
    """

    name: str
    start: int
    color: str = ""
    initial: dict[str, tuple[int, State]] | None = None
    events: list[Seen] = field(default_factory=list)
    reached: int = 0  # by events and bookmarks
    troubles: list[str] = field(default_factory=list)


@dataclass(slots=True)
class History:
    writes: list[Write] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    watches: list[Watched] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)  # of the server as a whole
    faults: Counter[str] = field(default_factory=Counter)  # what was done to the servers


def state_of(obj: dict[str, Any]) -> State:
    meta = obj["metadata"]
    return State(
        meta["uid"],
        (obj.get("data") or {}).get("v", ""),
        (meta.get("labels") or {}).get("color", ""),
        "deletionTimestamp" in meta,
        bool(meta.get("finalizers")),
    )


def revision_of(obj: dict[str, Any]) -> int:
    return int(obj["metadata"]["resourceVersion"])


def key_of(obj: dict[str, Any]) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"

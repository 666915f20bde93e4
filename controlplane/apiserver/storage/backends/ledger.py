"""What a backend knows of its keys without reading values: revisions, and transactions that are not durable yet.

Used by ``sqlite`` (and through the same rules by ``memory``). All of it lives on the event loop: ``admit`` checks the
conditions of a transaction against everything admitted before and gives it its revision; then the writer makes a group
of transactions durable at once; then ``settle`` or ``undo`` follows. So conditions cost a dictionary look-up, and the
writing thread has nothing to ask.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from controlplane.apiserver.storage.interface import BackendEvent, Condition, Delete, Operation


class KeyState(NamedTuple):
    """Where a living key stands. ``key`` is the one string that everybody may share; ``position`` counts within the revision."""

    key: str
    mod_revision: int
    create_revision: int
    position: int = 0


@dataclass(frozen=True, slots=True)
class Admitted:
    """A transaction with its revision. ``undo`` holds the state of each key before it, in order."""

    revision: int
    events: tuple[BackendEvent, ...]
    ttls: tuple[int, ...]
    undo: tuple[tuple[str, KeyState | None], ...]


class Ledger:
    """The index of living keys, including changes on their way to disk."""

    def __init__(self, revision: int) -> None:
        self.head = revision  # of the last admitted transaction
        self.keys: dict[str, KeyState] = {}
        self._unsettled: dict[str, int] = {}

    def failed(self, conditions: Sequence[Condition]) -> bool:
        for condition in conditions:
            state = self.keys.get(condition.key)
            if (state.mod_revision if state else 0) != condition.revision:
                return True
        return False

    def unsettled(self, keys: Iterable[str]) -> bool:
        """Whether an admitted, not yet durable change touches one of ``keys``."""
        return bool(self._unsettled) and any(key in self._unsettled for key in keys)

    def admit(self, operations: Sequence[Operation]) -> Admitted | None:
        """Apply operations whose conditions hold. None when they change nothing."""
        check_distinct(operations)
        revision = self.head + 1
        events: list[BackendEvent] = []
        ttls: list[int] = []
        undo: list[tuple[str, KeyState | None]] = []
        for operation in operations:
            key = operation.key
            old = self.keys.get(key)
            if isinstance(operation, Delete):
                if old is None:
                    continue
                del self.keys[key]
                events.append(BackendEvent(key, None, revision, old.create_revision, old.mod_revision))
                ttls.append(0)
            else:
                created = old.create_revision if old else revision
                self.keys[key] = KeyState(old.key if old else key, revision, created, len(events))
                events.append(BackendEvent(key, operation.value, revision, created, old.mod_revision if old else 0))
                ttls.append(operation.ttl)
            undo.append((key, old))
            self._unsettled[key] = revision
        if not events:
            return None
        self.head = revision
        return Admitted(revision, tuple(events), tuple(ttls), tuple(undo))

    def settle(self, transactions: Sequence[Admitted]) -> None:
        """These are durable now."""
        for transaction in transactions:
            for key, _ in transaction.undo:
                if self._unsettled.get(key) == transaction.revision:
                    del self._unsettled[key]

    def undo(self, transactions: Sequence[Admitted]) -> None:
        """These failed, and so did everything admitted after them: give all of it, oldest first."""
        for transaction in reversed(transactions):
            for key, old in reversed(transaction.undo):
                if old is None:
                    self.keys.pop(key, None)
                else:
                    self.keys[key] = old
                self._unsettled.pop(key, None)
            self.head = transaction.revision - 1


def check_distinct(operations: Sequence[Operation]) -> None:
    """Refuse two operations on one key: which one should hold at the revision?"""
    if len(operations) > 1 and len({operation.key for operation in operations}) != len(operations):
        raise ValueError(f"a transaction names a key twice: {sorted(operation.key for operation in operations)}")


def prefix_end(prefix: str) -> str | None:
    """The first key after all those with ``prefix``; None when there is no such bound."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1) if prefix else None

"""What a controller has just done and its informer has not shown it yet.

A reconciler that created three pods must not count pods again before it has seen those three, or it would create three
more. It records what it expects before it acts; the informer's handlers count down; ``satisfied`` says when counting is
safe. A lost event only delays: expectations lapse after five minutes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from component.clock import Clock

TIMEOUT_SECONDS = 300.0


@dataclass(slots=True)
class _Pending:
    creations: int = 0
    deletions: set[str] = field(default_factory=set)
    since: float = 0.0


class Expectations:
    """Keyed by the owner's ``namespace/name``; deletions are remembered by uid, so that one is never counted twice."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pending: dict[str, _Pending] = {}

    def expect_creations(self, key: str, count: int) -> None:
        self._renew(key).creations = count

    def expect_deletions(self, key: str, uids: Iterable[str]) -> None:
        self._renew(key).deletions = set(uids)

    def _renew(self, key: str) -> _Pending:
        pending = self._pending.setdefault(key, _Pending())
        pending.since = self._clock.monotonic()
        return pending

    def creation_observed(self, key: str, count: int = 1) -> None:
        """Also called for creations that failed: their events will never come."""
        pending = self._pending.get(key)
        if pending is not None:
            pending.creations = max(0, pending.creations - count)

    def deletion_observed(self, key: str, uid: str) -> None:
        pending = self._pending.get(key)
        if pending is not None:
            pending.deletions.discard(uid)

    def satisfied(self, key: str) -> bool:
        pending = self._pending.get(key)
        if pending is None or (not pending.creations and not pending.deletions):
            return True
        return self._clock.monotonic() - pending.since > TIMEOUT_SECONDS

    def forget(self, key: str) -> None:
        """The owner is gone."""
        self._pending.pop(key, None)

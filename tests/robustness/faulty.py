"""An API server with a bug of one's choice: ``python -m tests.robustness.faulty apiserver ...`` with PYB_FAULT set.

The checker has to object to each of them; a checker that never objects proves nothing.
"""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from controlplane.apiserver.storage.backends import sqlite
from controlplane.apiserver.storage.backends.ledger import Ledger
from controlplane.apiserver.storage.backends.sqlite_file import Database, Loaded
from controlplane.apiserver.storage.cacher.cacher import Cacher
from controlplane.apiserver.storage.cacher.dispatch import Dispatch
from controlplane.apiserver.storage.cacher.event import Event
from controlplane.apiserver.storage.cacher.feed import Feed
from controlplane.apiserver.storage.interface import BackendEvent, Condition


def acknowledge_early() -> None:
    """Writes are answered before they are on the disk."""
    write = sqlite.SQLiteBackend._write

    def early(self: sqlite.SQLiteBackend, group: list[Any]) -> None:
        self._loop.call_soon_threadsafe(self._written, None)
        time.sleep(0.3)
        self._write_database.append([row for pending in group for row in pending.rows])

    assert write is not None
    sqlite.SQLiteBackend._write = early  # type: ignore[method-assign]


def _every(count: int) -> Callable[[], bool]:
    met = 0

    def due() -> bool:
        nonlocal met
        met += 1
        return met % count == 0

    return due


def drop_events() -> None:
    """Now and then an event reaches the cache and no watcher."""
    send, due = Dispatch.send, _every(200)

    def dropping(self: Dispatch, event: Event) -> None:
        if not due():
            send(self, event)

    Dispatch.send = dropping  # type: ignore[method-assign]


def reorder_events() -> None:
    """Now and then an event overtakes the one before it."""
    send, due = Dispatch.send, _every(50)
    held: list[tuple[Dispatch, Event]] = []

    def reordering(self: Dispatch, event: Event) -> None:
        if due():
            held.append((self, event))
            return
        send(self, event)
        for late in [one for one in held if one[0] is self]:
            held.remove(late)
            send(*late)

    Dispatch.send = reordering  # type: ignore[method-assign]


def repeat_events() -> None:
    """Now and then an event is told twice."""
    send, due = Dispatch.send, _every(50)

    def repeating(self: Dispatch, event: Event) -> None:
        send(self, event)
        if due():
            send(self, event)

    Dispatch.send = repeating  # type: ignore[method-assign]


def stale_reads() -> None:
    """The cache lags behind, and writers do not wait for it."""
    apply = Feed._apply

    async def at_once(self: Cacher, revision: int) -> None:
        return

    def late(self: Feed, events: Sequence[BackendEvent]) -> None:
        asyncio.get_running_loop().call_later(0.03, apply, self, events)

    Cacher._reached = at_once  # type: ignore[method-assign]
    Feed._apply = late  # type: ignore[method-assign]


def lost_updates() -> None:
    """Whoever writes last wins, whatever was there."""

    def fine(self: Ledger, conditions: Sequence[Condition]) -> bool:
        return False

    Ledger.failed = fine  # type: ignore[method-assign]


def undead() -> None:
    """A restart forgets deletions."""
    load = Database.load

    def forgetful(self: Database) -> Loaded:
        self._connection.execute("DELETE FROM revisions WHERE value IS NULL")
        return load(self)

    Database.load = forgetful  # type: ignore[method-assign]


def forgotten_revisions() -> None:
    """A restart counts from a little before where it was."""
    load = Database.load

    def behind(self: Database) -> Loaded:
        loaded = load(self)
        return loaded._replace(revision=max(loaded.revision - 3, 1))

    Database.load = behind  # type: ignore[method-assign]


FAULTS: dict[str, Callable[[], None]] = {
    fault.__name__.replace("_", "-"): fault
    for fault in (
        acknowledge_early,
        drop_events,
        reorder_events,
        repeat_events,
        stale_reads,
        lost_updates,
        undead,
        forgotten_revisions,
    )
}
ROOT = Path(__file__).parents[2]

if __name__ == "__main__":
    FAULTS[os.environ["PYB_FAULT"]]()
    from cli.__main__ import main

    main()

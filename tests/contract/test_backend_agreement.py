"""SQLite and the memory fake live through the same random history and must tell the same story."""

import asyncio
import tempfile
from collections.abc import Awaitable, Coroutine
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from controlplane.apiserver.storage.backends.memory import MemoryBackend
from controlplane.apiserver.storage.backends.sqlite import SQLiteBackend
from controlplane.apiserver.storage.interface import (
    Backend,
    BackendEvent,
    CompactedError,
    Condition,
    Delete,
    FutureRevisionError,
    Operation,
    Put,
)

KEYS = st.sampled_from(["/a/1", "/a/10", "/a/2", "/b/1", "/b", "/é"])
PREFIXES = st.sampled_from(["", "/a/", "/b", "/b/", "/c"])
REVISIONS = st.integers(min_value=0, max_value=30)
OPERATIONS = st.lists(
    st.one_of(st.builds(Put, KEYS, st.binary(max_size=4)), st.builds(Delete, KEYS)), max_size=3, unique_by=lambda o: o.key
)


async def outcome(call: Awaitable[Any]) -> Any:
    try:
        return await call
    except (CompactedError, FutureRevisionError) as error:
        return type(error), str(error)


async def history(backend: Backend, prefix: str, after: int) -> Any:
    """All events of a watch so far; a marker written at the end tells when to stop."""
    last = (await backend.commit((), (Put("/marker", b""),))).revision
    events: list[BackendEvent] = []
    if after >= last:
        return events
    try:
        async for batch in backend.watch("", after):
            events += batch
            if batch[-1].revision >= last:
                return [event for event in events if event.key.startswith(prefix)]
    except CompactedError as error:
        return str(error)


class Agreement(RuleBasedStateMachine):
    """Each rule asks both the same and compares the answers."""

    @initialize()
    def open(self) -> None:
        self.runner = asyncio.Runner()
        self.directory = tempfile.TemporaryDirectory()
        self.memory = self.runner.run(_make_memory())
        self.sqlite = self.runner.run(self._open())

    def _open(self) -> Coroutine[Any, Any, SQLiteBackend]:
        return SQLiteBackend.open(Path(self.directory.name) / "state.db", compact_every=0, synchronous="NORMAL")

    def both(self, ask: Any) -> Any:
        fake, real = self.runner.run(outcome(ask(self.memory))), self.runner.run(outcome(ask(self.sqlite)))
        assert real == fake
        return real

    @rule(operations=OPERATIONS, conditions=st.lists(st.tuples(KEYS, st.integers(-1, 1)), max_size=2))
    def commit(self, operations: list[Operation], conditions: list[tuple[str, int]]) -> None:
        wanted = []
        for key, error in conditions:
            held = self.both(lambda backend, key=key: backend.get(key))
            wanted.append(Condition(key, max(0, (held.mod_revision if held else 0) + (error == 1))))
        self.both(lambda backend: backend.commit(wanted, operations))

    @rule(keys=st.lists(KEYS, min_size=2, max_size=5))
    def race(self, keys: list[str]) -> None:
        async def all_at_once(backend: Backend) -> Any:
            creations = (backend.commit((Condition(key, 0),), (Put(key, b"%d" % at),)) for at, key in enumerate(keys))
            return [(each.succeeded, each.revision if each.succeeded else 0) for each in await asyncio.gather(*creations)]

        self.both(all_at_once)

    @rule(key=KEYS, revision=REVISIONS)
    def get(self, key: str, revision: int) -> None:
        self.both(lambda backend: backend.get(key, revision))

    @rule(prefix=PREFIXES, start=st.one_of(st.just(""), KEYS), revision=REVISIONS, limit=st.integers(0, 3))
    def range(self, prefix: str, start: str, revision: int, limit: int) -> None:
        self.both(lambda backend: backend.range(prefix, start=start, revision=revision, limit=limit))

    @rule(prefix=PREFIXES, after=REVISIONS)
    def watch(self, prefix: str, after: int) -> None:
        self.both(lambda backend: history(backend, prefix, after))

    @rule(revision=REVISIONS)
    def compact(self, revision: int) -> None:
        self.both(lambda backend: backend.compact(revision))

    @rule()
    def restart(self) -> None:
        self.runner.run(self.sqlite.close())
        self.sqlite = self.runner.run(self._open())

    @invariant()
    def same_revision(self) -> None:
        if hasattr(self, "sqlite"):
            self.both(lambda backend: backend.current_revision())

    def teardown(self) -> None:
        if hasattr(self, "sqlite"):
            self.runner.run(self.sqlite.close())
            self.runner.run(self.memory.close())
            self.runner.close()
            self.directory.cleanup()


async def _make_memory() -> MemoryBackend:
    return MemoryBackend()


TestAgreement = Agreement.TestCase
TestAgreement.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)

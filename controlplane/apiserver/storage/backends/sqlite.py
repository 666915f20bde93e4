"""The embedded backend: one SQLite file, owned by one process. See ``Backend``; ``sqlite_file`` has the blocking half.

The loop admits transactions in memory (``ledger``) and hands groups of them to one writing thread; while a group is on
its way to disk the next one gathers, so that many commits share one fsync. When a group is durable, its events go to
every watch and then its writers get their answer, in one step on the loop. Reads run on a second thread.

Keys expire, and old versions are compacted, by timers on the loop that feed the same writing thread.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from controlplane.apiserver.storage.backends.expiry import Expirations
from controlplane.apiserver.storage.backends.ledger import Admitted, KeyState, Ledger, check_distinct, prefix_end
from controlplane.apiserver.storage.backends.publisher import HISTORY_PAGE, Publisher
from controlplane.apiserver.storage.backends.sqlite_file import MAX_OPERATIONS, POSITION_BITS, Database, Loaded, Lock, Row
from controlplane.apiserver.storage.backends.worker import Worker
from controlplane.apiserver.storage.interface import (
    BackendEvent,
    Commit,
    CompactedError,
    Condition,
    Delete,
    FutureRevisionError,
    KeyValue,
    Operation,
    Range,
    StorageUnavailableError,
)

_T = TypeVar("_T")

PENDING_BOUND = 10_000  # transactions that may wait for the disk; further writers wait before they are admitted
SWEEP_REVISIONS = 500  # how much history one step of compaction forgets; writes go on between steps
SHRINK_PAGES = 200
EXPIRY_GROUP = 200  # expired keys deleted per step
EXPIRY_RETRY = 10.0  # seconds


@dataclass(slots=True)
class _Pending:
    admitted: Admitted
    rows: list[Row]
    waiter: asyncio.Future[None] | None


class SQLiteBackend:
    """Made by :meth:`open`, on the loop that will use it."""

    exclusive = True

    def __init__(
        self, path: Path, lock: Lock, writer: Database, reader: Database, loaded: Loaded, now: Callable[[], float]
    ) -> None:
        self._path, self._lock, self._now = path, lock, now
        self._write_database, self._read_database = writer, reader
        self._loop = asyncio.get_running_loop()
        self._writer = Worker("storage-writer")
        self._reader = Worker("storage-reader")
        self._revision, self._compacted = loaded.revision, loaded.compacted
        self._ledger = Ledger(loaded.revision)
        self._expirations = Expirations()
        for key, row_id, created, expires in loaded.latest:
            modified = row_id >> POSITION_BITS
            same = created if created == modified else modified  # one number in memory, not two
            self._ledger.keys[key] = KeyState(key, same, created, row_id & (MAX_OPERATIONS - 1))
            if expires is not None:
                self._expirations.note(expires, key, modified)
        self._pending: list[_Pending] = []
        self._writing: list[_Pending] = []
        self._flush_due = False
        self._settled: list[asyncio.Future[None]] = []
        self._publisher = Publisher(lambda: self._revision, self._read_history)
        self._closed = False
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._marks: deque[tuple[float, int]] = deque()

    @classmethod
    async def open(
        cls,
        path: str | Path,
        *,
        synchronous: str = "FULL",
        compact_every: float = 300.0,
        wipe: bool = False,
        now: Callable[[], float] = time.time,
    ) -> "SQLiteBackend":
        """Open or make the file. ``synchronous`` NORMAL may lose the last commits when the machine (not the process) dies.

        ``wipe`` overwrites what is compacted with zeros, so that values of before they were encrypted go from the file, too.
        History is kept for ``compact_every`` to twice as many seconds (0: until ``compact``). Raises StorageUnavailableError
        when another process owns the file, StorageCorruptError when it is damaged.
        """
        if synchronous not in ("FULL", "NORMAL"):
            raise ValueError(f"synchronous must be FULL or NORMAL, not {synchronous!r}")
        target = Path(path)
        lock, writer, reader, loaded = await asyncio.to_thread(_open, target, synchronous, wipe)
        backend = cls(target, lock, writer, reader, loaded, now)
        backend._schedule_expiry()
        if compact_every:
            backend._after("compact", compact_every, backend._compact_periodically, compact_every)
        return backend

    # ------------------------------------------------------------------ reads

    async def current_revision(self) -> int:
        return self._revision

    async def get(self, key: str, revision: int = 0) -> KeyValue | None:
        at = self._checked(revision)
        if at == self._revision and key not in self._ledger.keys and not self._ledger.unsettled((key,)):
            return None
        row = await self._read(lambda: self._read_database.get(key, at))
        self._checked(at)
        return row and KeyValue(key, row[2], row[0], row[1])

    async def range(self, prefix: str, *, start: str = "", revision: int = 0, limit: int = 0) -> Range:
        at = self._checked(revision)
        first, end = max(prefix, start), prefix_end(prefix)
        rows = await self._read(lambda: self._read_database.range(first, end, at, limit + 1 if limit else 0))
        self._checked(at)
        known = self._ledger.keys
        items = [
            KeyValue(known[key].key if key in known else key, value, created, modified) for key, value, created, modified in rows
        ]
        if not limit or len(items) <= limit:
            return Range(items, at)
        beyond = items[limit].key
        remaining = await self._read(lambda: self._read_database.count(beyond, end, at))
        return Range(items[:limit], at, True, remaining)

    def watch(self, prefix: str, after: int) -> AsyncIterator[Sequence[BackendEvent]]:
        return self._publisher.follow(prefix, after)

    # ------------------------------------------------------------------ writes

    async def commit(self, conditions: Sequence[Condition], operations: Sequence[Operation]) -> Commit:
        self._check_open()
        check_distinct(operations)
        if len(operations) > MAX_OPERATIONS:
            raise ValueError(f"a transaction may hold {MAX_OPERATIONS} operations, not {len(operations)}")
        while len(self._pending) >= PENDING_BOUND:
            await self._settle()
        while self._ledger.failed(conditions):
            if not self._ledger.unsettled(condition.key for condition in conditions):
                current = [await self.get(condition.key) for condition in conditions]
                return Commit(False, self._revision, tuple(current))
            await self._settle()  # only what is durable may be the reason of a refusal
        waiter = self._loop.create_future()
        admitted = self._admit(operations, waiter)
        if admitted is None:
            while self._ledger.unsettled(operation.key for operation in operations):
                await self._settle()
            return Commit(True, self._revision)
        await waiter
        return Commit(True, admitted.revision)

    def _admit(self, operations: Sequence[Operation], waiter: asyncio.Future[None] | None) -> Admitted | None:
        admitted = self._ledger.admit(operations)
        if admitted is None:
            return None
        rows: list[Row] = []
        for event, ttl, (key, old) in zip(admitted.events, admitted.ttls, admitted.undo, strict=True):
            row_id = (admitted.revision << POSITION_BITS) + len(rows)
            previous = (old.mod_revision << POSITION_BITS) + old.position if old else 0
            expires = self._now() + ttl if ttl else None
            rows.append((row_id, key, event.create_revision, previous, expires, event.value))
            if expires is not None:
                self._expirations.note(expires, key, admitted.revision)
        self._pending.append(_Pending(admitted, rows, waiter))
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)  # whoever commits in this turn of the loop rides along
        return admitted

    def _flush(self) -> None:
        self._flush_due = False
        if self._writing or not self._pending:
            return
        self._writing, self._pending = self._pending, []
        self._writer.submit(partial(self._write, self._writing))

    def _write(self, group: list[_Pending]) -> None:
        """On the writing thread."""
        failure: StorageUnavailableError | None = None
        try:
            self._write_database.append([row for pending in group for row in pending.rows])
        except StorageUnavailableError as error:
            failure = error
        except Exception as error:
            failure = StorageUnavailableError(f"{self._path}: {error!r}")
        self._loop.call_soon_threadsafe(self._written, failure)

    def _written(self, failure: StorageUnavailableError | None) -> None:
        group, self._writing = self._writing, []
        if failure is not None:
            self._give_up(group + self._pending, failure)
        else:
            self._ledger.settle([pending.admitted for pending in group])
            self._revision = group[-1].admitted.revision
            self._publisher.publish([event for pending in group for event in pending.admitted.events])
            for pending in group:
                if pending.waiter is not None and not pending.waiter.done():
                    pending.waiter.set_result(None)
        for waiter in self._settled:
            if not waiter.done():
                waiter.set_result(None)
        self._settled.clear()
        self._flush()
        self._schedule_expiry()

    def _give_up(self, group: list[_Pending], failure: StorageUnavailableError) -> None:
        """Take back what was not written, with all that was admitted on top of it."""
        self._pending = []
        self._ledger.undo([pending.admitted for pending in group])
        self._expirations.void_from(group[0].admitted.revision)
        for pending in group:
            if pending.waiter is None:  # an expiry that did not happen
                for key, old in pending.admitted.undo:
                    if old is not None:
                        self._expirations.note(self._now() + EXPIRY_RETRY, key, old.mod_revision)
        for pending in group:
            if pending.waiter is not None and not pending.waiter.done():
                pending.waiter.set_exception(StorageUnavailableError(str(failure)))

    async def _settle(self) -> None:
        """Until the group that is being written is, one way or the other."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._settled.append(waiter)
        await waiter

    # ------------------------------------------------------------------ expiry and compaction

    async def expire(self) -> None:
        """Delete what has expired by now. Happens by itself; tests with a clock of their own call it."""
        while self._expire():
            await self._settle()

    def _expire(self) -> bool:
        """One step; whether anything was due."""
        found = 0
        for key, revision in self._expirations.due(self._now()):
            state = self._ledger.keys.get(key)
            if state is not None and state.mod_revision == revision:  # else it was written again, or is gone
                self._admit((Delete(key),), None)
                found += 1
            if found == EXPIRY_GROUP:
                break
        return found > 0

    def _schedule_expiry(self) -> None:
        due = self._expirations.next()
        if due is not None and "expire" not in self._timers and not self._closed:
            # not more often than once a second: events expire in crowds
            self._after("expire", min(max(1.0, due - self._now()), 3600.0), self._expire_on_time)

    def _expire_on_time(self) -> None:
        self._expire()
        self._schedule_expiry()

    async def compact(self, revision: int) -> None:
        self._check_open()
        if revision > self._revision:
            raise FutureRevisionError(f"revision {revision} is in the future; the current one is {self._revision}")
        if revision <= self._compacted:
            return
        self._compacted, head = revision, self._revision
        await self._on_writer(lambda: self._write_database.compact(revision, head))
        while not await self._on_writer(lambda: self._write_database.sweep(SWEEP_REVISIONS)):
            pass

    def _compact_periodically(self, every: float) -> None:
        """Compact to where the head was one period ago, without waiting for it."""
        self._after("compact", every, self._compact_periodically, every)
        self._marks.append((self._loop.time(), self._revision))
        if len(self._marks) < 2:
            return
        revision, head = self._marks.popleft()[1], self._revision
        if revision > self._compacted:
            self._compacted = revision
            self._writer.submit(partial(self._sweep, revision, head))

    def _sweep(self, revision: int, head: int) -> None:
        """On the writing thread; each step goes to the end of its queue, so writes pass between steps."""
        try:
            if head:
                self._write_database.compact(revision, head)
            done = self._write_database.sweep(SWEEP_REVISIONS) and self._write_database.shrink(SHRINK_PAGES)
        except StorageUnavailableError:
            return  # the next period tries again; writers hear of the cause themselves
        if not done and not self._closed:
            self._loop.call_soon_threadsafe(self._sweep_on)

    def _sweep_on(self) -> None:
        if not self._closed:
            self._writer.submit(partial(self._sweep, self._compacted, 0))

    # ------------------------------------------------------------------ the end, and help

    async def backup(self, target: str | Path) -> None:
        """Write a consistent copy of the database to a new file while work goes on."""
        await self._read(lambda: self._read_database.backup(Path(target)))

    def size(self) -> int:
        """Of the database and its log."""
        return sum(file.stat().st_size for file in (self._path, self._path.with_name(self._path.name + "-wal")) if file.exists())

    async def close(self) -> None:
        """Write what was admitted, end every watch, give the file free. Idempotent."""
        if self._closed:
            return
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        while self._writing or self._pending:
            await self._settle()
        self._publisher.close()
        await asyncio.to_thread(self._shut_down)

    def _shut_down(self) -> None:
        self._writer.close()
        self._reader.close()
        self._read_database.close()
        self._write_database.close()
        self._lock.release()

    def _after(self, name: str, delay: float, call: Callable[..., None], *arguments: float) -> None:
        def run() -> None:
            self._timers.pop(name, None)
            call(*arguments)

        self._timers[name] = self._loop.call_later(delay, run)

    def _check_open(self) -> None:
        if self._closed:
            raise StorageUnavailableError(f"{self._path}: the database is closed")

    def _checked(self, revision: int) -> int:
        self._check_open()
        if revision > self._revision:
            raise FutureRevisionError(f"revision {revision} is in the future; the current one is {self._revision}")
        if revision and revision < self._compacted:
            raise CompactedError(revision, self._compacted)
        return revision or self._revision

    async def _read(self, call: Callable[[], _T]) -> _T:
        self._check_open()
        return await self._reader.run(call)

    async def _on_writer(self, call: Callable[[], _T]) -> _T:
        self._check_open()
        return await self._writer.run(call)

    async def _read_history(self, after: int, up_to: int) -> tuple[list[BackendEvent], int]:
        if after < self._compacted:
            raise CompactedError(after, self._compacted)
        if after >= up_to:
            return [], up_to
        limit = HISTORY_PAGE + MAX_OPERATIONS
        rows = await self._read(lambda: self._read_database.changes(after, up_to, limit))
        if after < self._compacted:
            raise CompactedError(after, self._compacted)
        reached = up_to
        if len(rows) == limit:  # the last revision may be cut: leave it to the next page
            reached = (rows[-1][0] >> POSITION_BITS) - 1
        return [_event(row) for row in rows if row[0] >> POSITION_BITS <= reached], reached


def _event(row: Row) -> BackendEvent:
    row_id, key, created, previous, _, value = row
    return BackendEvent(key, value, row_id >> POSITION_BITS, created, previous >> POSITION_BITS)


def _open(path: Path, synchronous: str, wipe: bool) -> tuple[Lock, Database, Database, Loaded]:
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = Lock(path.with_name(path.name + ".lock"))
    with ExitStack() as undo:
        undo.callback(lock.release)
        # SQLite gives the files beside it (-wal, -shm) the mode of the database: secrets are in all of them
        path.touch(0o600)
        path.chmod(0o600)
        writer = Database(path, synchronous=synchronous, wipe=wipe)
        undo.callback(writer.close)
        writer.check()
        loaded = writer.load()
        reader = Database(path, read_only=True)
        undo.pop_all()
    return lock, writer, reader, loaded

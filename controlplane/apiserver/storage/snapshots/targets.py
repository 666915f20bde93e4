"""Stores that are filled from a snapshot: empty ones only, and never half filled without saying so.

Used by ``service``. Every object keeps its bytes. The new store's revision begins ``bump`` above the snapshot's, and what is
before counts as compacted: whoever has seen the old cluster after the snapshot was taken, a controller with a cache above
all, is told 410 and starts over, instead of waiting for revisions that mean something else now (``etcdutl snapshot restore
--bump-revision --mark-compacted``).
"""

import asyncio
import math
import os
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from controlplane.apiserver.storage.backends.etcd.backend import OFFSET_KEY, RESTORING, EtcdBackend
from controlplane.apiserver.storage.backends.etcd.config import EtcdConfig
from controlplane.apiserver.storage.backends.sqlite_file import POSITION_BITS, Database, Row
from controlplane.apiserver.storage.interface import Condition, Put
from controlplane.apiserver.storage.layout import ROOT
from controlplane.apiserver.storage.snapshots.format import Item, SnapshotError

BUMP = 1_000_000_000  # what etcd's documentation recommends: more than a cluster writes between two snapshots
_BATCH_KEYS, _BATCH_BYTES = 100, 1 << 20  # what etcd takes in one transaction: 128 operations, 1.5 MB
_AT_ONCE = 8
_SKIPPED = ("/registry/masterleases/", "/registry/pybernetes.io/")  # of servers that were, and of stores themselves


class Target(Protocol):
    async def fill(self, items: Iterable[Item]) -> None: ...


def kept(items: Iterable[Item], now: float) -> Iterator[Item]:
    """What is restored: not what has expired, nor what names processes of before."""
    for item in items:
        if not item.key.startswith(_SKIPPED) and (item.expires is None or item.expires > now):
            yield item


@dataclass
class SQLiteTarget:
    database: Database
    position: dict[int, int] = field(default_factory=dict)  # keys of each revision so far

    async def fill(self, items: Iterable[Item]) -> None:
        rows: list[Row] = []
        for item in items:
            at = self.position.get(item.mod_revision, 0)
            self.position[item.mod_revision] = at + 1
            row_id = (item.mod_revision << POSITION_BITS) + at
            rows.append((row_id, item.key, item.create_revision, 0, item.expires, item.value))
        await asyncio.to_thread(self.database.append, rows)


@asynccontextmanager
async def sqlite_target(path: Path, revision: int, bump: int) -> AsyncIterator[SQLiteTarget]:
    """A new file that has its name only when it is complete. Raises SnapshotError when there is one."""
    beside = [path.with_name(path.name + end) for end in ("", "-wal", "-shm")]
    if found := next((file for file in beside if file.exists()), None):
        raise SnapshotError(f"{found} exists: a snapshot is restored into an empty store only; move it away first")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.restoring")
    _remove(partial)
    partial.touch(0o600)
    database = await asyncio.to_thread(Database, partial)
    try:
        yield SQLiteTarget(database)
        await asyncio.to_thread(database.compact, revision + bump, revision + bump)
        await asyncio.to_thread(database.close)  # the last connection folds the log into the file
        os.link(partial, path)
    finally:
        with suppress(Exception):
            database.close()
        _remove(partial)


def _remove(path: Path) -> None:
    for end in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.unlink(path.with_name(path.name + end))


@dataclass
class EtcdTarget:
    backend: EtcdBackend
    now: float = field(default_factory=time.time)

    async def fill(self, items: Iterable[Item]) -> None:
        slots = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            for batch in batches(items):
                await slots.acquire()
                tasks.create_task(self._put(batch)).add_done_callback(lambda _: slots.release())

    async def _put(self, batch: Sequence[Item]) -> None:
        puts = [Put(item.key, item.value, self._ttl(item)) for item in batch]
        outcome = await self.backend.commit([Condition(item.key, 0) for item in batch], puts)
        if not outcome.succeeded:
            raise SnapshotError("etcd: somebody else writes to this store; stop every API server before a restore")

    def _ttl(self, item: Item) -> int:
        return max(math.ceil(item.expires - self.now), 1) if item.expires is not None else 0


def batches(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Lists that fit into a transaction each."""
    batch: list[Item] = []
    size = 0
    for item in items:
        cost = len(item.key) + len(item.value)
        if batch and (len(batch) == _BATCH_KEYS or size + cost > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += cost
    if batch:
        yield batch


@asynccontextmanager
async def etcd_target(config: EtcdConfig, revision: int, bump: int) -> AsyncIterator[EtcdTarget]:
    """An etcd without keys under the prefix. Until the end servers refuse to start on it. Raises SnapshotError."""
    backend = await EtcdBackend.open(config, restoring=True)
    try:
        if (await backend.range(ROOT, limit=1)).items:
            raise SnapshotError(
                f"etcd holds keys under {config.prefix}: a snapshot is restored into an empty store only; "
                f"`etcdctl del --prefix {config.prefix}/` empties it, or choose another --etcd-prefix"
            )
        mark = await backend.commit((Condition(OFFSET_KEY, 0),), (Put(OFFSET_KEY, RESTORING),))
        yield EtcdTarget(backend)
        offset = max(revision + bump - await backend.current_revision(), 0)
        done = await backend.commit((Condition(OFFSET_KEY, mark.revision),), (Put(OFFSET_KEY, str(offset).encode()),))
        if not done.succeeded:
            raise SnapshotError("etcd: another restore has been at work; empty the store and begin again")
    finally:
        await backend.close()

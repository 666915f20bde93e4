"""What snapshots are made from: the present keys of a store at one revision, while servers go on writing.

Used by ``service``. A source never writes, and takes no lock that a server would wait for.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from controlplane.apiserver.storage.backends.etcd.api import etcd_v3_pb2 as pb
from controlplane.apiserver.storage.backends.etcd.backend import EtcdBackend
from controlplane.apiserver.storage.backends.etcd.config import EtcdConfig
from controlplane.apiserver.storage.backends.sqlite_file import Database
from controlplane.apiserver.storage.layout import ROOT
from controlplane.apiserver.storage.snapshots.format import Item, SnapshotError

PAGE = 500


class Source(Protocol):
    """``revision`` is what :meth:`pages` shows, however long that takes."""

    kind: str
    revision: int

    def pages(self) -> AsyncIterator[list[Item]]: ...


@dataclass
class SQLiteSource:
    """One read transaction on the file; a server may own it meanwhile."""

    database: Database
    revision: int
    kind: str = "sqlite"

    async def pages(self) -> AsyncIterator[list[Item]]:
        start = ""
        while True:
            rows = await asyncio.to_thread(self.database.living, start, PAGE)
            if not rows:
                return
            yield [Item(*row) for row in rows]
            start = rows[-1][0] + "\0"


@asynccontextmanager
async def sqlite_source(path: Path) -> AsyncIterator[SQLiteSource]:
    """Raises SnapshotError when there is no such file, StorageUnavailableError when it cannot be read."""
    if not await asyncio.to_thread(path.exists):
        raise SnapshotError(f"{path}: there is no database")
    database = await asyncio.to_thread(Database, path, read_only=True)
    try:
        yield SQLiteSource(database, await asyncio.to_thread(database.begin_reading))
    finally:
        await asyncio.to_thread(database.close)


@dataclass
class EtcdSource:
    """Pages at one revision; it must not be compacted meanwhile, which takes an interval at least."""

    backend: EtcdBackend
    revision: int
    now: Callable[[], float] = time.time
    kind: str = "etcd3"

    async def pages(self) -> AsyncIterator[list[Item]]:
        leases: dict[int, float | None] = {}
        async for kvs in self.backend.stored(ROOT, self.revision, PAGE):
            for lease in {kv.lease for kv in kvs} - leases.keys() - {0}:
                leases[lease] = await self._ends(lease)
            yield [
                Item(
                    self.backend.name(kv.key),
                    kv.value,
                    kv.create_revision + self.backend.offset,
                    kv.mod_revision + self.backend.offset,
                    leases.get(kv.lease),
                )
                for kv in kvs
            ]

    async def _ends(self, lease: int) -> float:
        answer = await self.backend.call("Lease", "LeaseTimeToLive", pb.LeaseTimeToLiveRequest(ID=lease))
        return self.now() + max(int(answer.TTL), 0)


@asynccontextmanager
async def etcd_source(config: EtcdConfig) -> AsyncIterator[EtcdSource]:
    """Raises StorageUnavailableError."""
    backend = await EtcdBackend.open(config)
    try:
        yield EtcdSource(backend, await backend.current_revision())
    finally:
        await backend.close()

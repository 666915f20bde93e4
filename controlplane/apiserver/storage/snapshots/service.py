"""Saving, looking at, restoring and moving, for ``cli.snapshot``: streams from a source to a file, from a file to a target."""

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from apimachinery.times import format_time
from controlplane.apiserver.config import Storage as Store
from controlplane.apiserver.storage.backends.sqlite_file import Lock
from controlplane.apiserver.storage.interface import CompactedError
from controlplane.apiserver.storage.layout import resource_of
from controlplane.apiserver.storage.snapshots import format as file_format
from controlplane.apiserver.storage.snapshots import sources, targets
from controlplane.apiserver.storage.snapshots.format import Header, SnapshotError


@dataclass
class Status:
    """What a file holds, after it has been read to its end."""

    header: Header
    size: int
    keys: int = 0
    resources: Counter[str] = field(default_factory=Counter)

    def as_dict(self) -> dict[str, Any]:
        return {
            "revision": self.header.revision,
            "created": self.header.created,
            "source": self.header.source,
            "keys": self.keys,
            "bytes": self.size,
            "resources": dict(sorted(self.resources.items())),
        }


async def save(store: Store, path: Path) -> Status:
    """A new snapshot file. Raises SnapshotError, StorageUnavailableError, OSError; then there is none."""
    async with _source(store) as source:
        header = Header(source.revision, format_time(datetime.now(UTC)), source.kind)
        with file_format.writing(path, header) as writer:
            try:
                async for items in source.pages():
                    await asyncio.to_thread(writer.add, items)
            except CompactedError:
                raise SnapshotError("it took longer than history is kept: raise --etcd-compaction-interval") from None
            keys = writer.keys
    return Status(header, (await asyncio.to_thread(path.stat)).st_size, keys)


def status(path: Path) -> Status:
    """Reads all of it. Raises SnapshotError, OSError."""
    found = Status(file_format.header_of(path), path.stat().st_size)
    for items in file_format.read(path):
        found.keys += len(items)
        found.resources.update(resource_of(item.key) or "other" for item in items)
    return found


async def restore(path: Path, store: Store, bump: int = targets.BUMP) -> Status:
    """Fill an empty store. The file is verified first. Raises SnapshotError, StorageUnavailableError, OSError."""
    found = await asyncio.to_thread(status, path)
    now = datetime.now(UTC).timestamp()
    async with _target(store, found.header.revision, bump) as target:
        batches = file_format.read(path)
        while (items := await asyncio.to_thread(next, batches, None)) is not None:
            await target.fill(list(targets.kept(items, now)))
    return found


async def move(source: Store, target: Store, between: Path) -> Status:
    """From one store to an empty other one, by way of a file. Raises as ``save`` and ``restore``, and when servers still run."""
    with contextlib.ExitStack() as stack:
        if source.backend == "sqlite" and source.path is not None:
            lock = await asyncio.to_thread(Lock, source.path.with_name(source.path.name + ".lock"))
            stack.callback(lock.release)
        saved = await save(source, between)
        found = await asyncio.to_thread(status, between)
        if found.resources["masterleases"]:
            raise SnapshotError(
                "an API server works on the store that is to be left, or did fifteen seconds ago; stop all of them first"
            )
        await restore(between, target)
        return saved


def expired(folder: Path, keep: int, pattern: str = "*.snapshot") -> list[Path]:
    """Snapshots beyond the newest ``keep``, by name: names carry the time."""
    return sorted(folder.glob(pattern), reverse=True)[keep:]


def _source(store: Store) -> contextlib.AbstractAsyncContextManager[sources.Source]:
    if store.backend == "sqlite" and store.path is not None:
        return sources.sqlite_source(store.path)
    if store.backend == "etcd3" and store.etcd is not None:
        return sources.etcd_source(store.etcd)
    raise SnapshotError(f"a store of kind {store.backend} has no snapshots")


def _target(store: Store, revision: int, bump: int) -> contextlib.AbstractAsyncContextManager[targets.Target]:
    if store.backend == "sqlite" and store.path is not None:
        return targets.sqlite_target(store.path, revision, bump)
    if store.backend == "etcd3" and store.etcd is not None:
        return targets.etcd_target(store.etcd, revision, bump)
    raise SnapshotError(f"a store of kind {store.backend} cannot be restored")

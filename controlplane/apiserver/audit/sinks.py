"""Where audit events go. The file sink queues lines and writes them from a thread, so that no request waits for a disk."""

import asyncio
import contextlib
import logging
import os
import time
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Protocol

from apimachinery.codecs.json import encode
from controlplane.apiserver.audit.truncate import Bounds, fitted

log = logging.getLogger(__name__)
_QUEUE = 10_000  # lines; when the disk is slower than this for long, lines are dropped and counted
_BATCH = 400
_GATHER = 0.05  # seconds: a thread woken for each line would be a tenth of a lone write


class Sink(Protocol):
    dropped: int
    """Events that could not be kept."""

    def record(self, event: dict[str, Any]) -> None:
        """Take an event without waiting; may drop it when overwhelmed."""
        ...


class FileSink:
    """Appends to ``path``; past ``max_bytes`` the file is renamed to ``.1`` and so on, ``backups`` of them are kept.

    None of those for longer than ``days``, if that is not 0. ``bounds`` cuts events short.
    """

    def __init__(self, path: Path, max_bytes: int, backups: int, days: float = 0, bounds: Bounds | None = None) -> None:
        self._path, self._max_bytes, self._backups = path, max_bytes, backups
        self._days, self._bounds = days, bounds
        self._queue: deque[dict[str, Any]] = deque()
        self._some = asyncio.Event()
        self._writing: asyncio.Future[None] | None = None  # what a thread has in hand, and finishes when the task is stopped
        self.dropped = 0

    def record(self, event: dict[str, Any]) -> None:
        if len(self._queue) >= _QUEUE:
            self.dropped += 1
            return
        self._queue.append(event)
        self._some.set()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator["FileSink"]:
        """Owns the writing task: started here, stopped (queue emptied first, whatever ends it) when the block ends."""
        try:
            async with asyncio.TaskGroup() as tasks:
                writer = tasks.create_task(self._write_forever(), name="audit-log")
                try:
                    yield self
                finally:
                    writer.cancel()
        finally:
            if self._writing is not None:
                await self._writing
            await asyncio.to_thread(self._append, self._take(len(self._queue)))

    async def _write_forever(self) -> None:
        while True:
            await self._some.wait()
            await asyncio.sleep(_GATHER)
            self._some.clear()
            while self._queue:
                self._writing = asyncio.ensure_future(asyncio.to_thread(self._append, self._take(_BATCH)))
                await asyncio.shield(self._writing)

    def _take(self, count: int) -> list[bytes]:
        events = [self._queue.popleft() for _ in range(min(count, len(self._queue)))]
        bounds = self._bounds
        if bounds is None:
            return [encode(event) for event in events]
        lines = [line for event in events if (line := fitted(event, bounds.event)) is not None]
        self.dropped += len(events) - len(lines)
        return lines

    def _append(self, lines: list[bytes]) -> None:
        if not lines:
            return
        try:
            self._rotate()
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(descriptor, "ab") as file:
                file.write(b"\n".join(lines) + b"\n")
        except OSError as problem:
            self.dropped += len(lines)
            log.error("audit log %s cannot be written, %d lines lost: %s", self._path, len(lines), problem)

    def _rotate(self) -> None:
        self._drop_old()
        if not self._max_bytes or not self._path.exists() or self._path.stat().st_size < self._max_bytes:
            return
        for number in range(self._backups - 1, 0, -1):
            older = self._path.with_name(f"{self._path.name}.{number}")
            if older.exists():
                older.replace(self._path.with_name(f"{self._path.name}.{number + 1}"))
        if self._backups:
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        else:
            self._path.unlink()

    def _drop_old(self) -> None:
        if not self._days:
            return
        oldest = time.time() - self._days * 86_400
        for number in range(1, self._backups + 1):
            rotated = self._path.with_name(f"{self._path.name}.{number}")
            if rotated.exists() and rotated.stat().st_mtime < oldest:
                rotated.unlink()

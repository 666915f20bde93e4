"""Configuration files that count again when they change: AuthenticationConfiguration, AuthorizationConfiguration, ABAC policies.

A file that cannot be used leaves what was read before in force; metrics (upstream's names) and the log say so.
``assembly.server`` starts one task per file.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from component import logs
from component.errors import OperatorError
from component.metrics import Registry

_log = logs.get(__name__)
LOOK_SECONDS = 1.0

Apply = Callable[[bytes], Awaitable[None]]
"""Takes up the content of the file. Raises OperatorError or ValueError, and changes nothing then."""


class ConfigFile:
    """``name`` is ``authentication`` or ``authorization``: the word in upstream's metrics; empty for files that have none."""

    def __init__(self, path: Path, apply: Apply, metrics: Registry, name: str = "") -> None:
        self._path, self._apply = path, apply
        self._seen: bytes | None = None
        self._stamp: tuple[int, int] | None = None
        self._reloads = self._last = None
        if name:
            prefix = f"apiserver_{name}_config_controller_automatic_reload"
            self._reloads = metrics.counter(f"{prefix}s", f"Reloads of the {name} configuration.", ("status",))
            self._last = metrics.gauge(f"{prefix}_last_timestamp_seconds", "When the last of them was.", ("status",))

    async def start(self) -> None:
        """Note the content that is in force already."""
        self._stamp, self._seen = await asyncio.to_thread(self._read)

    async def look(self) -> None:
        """Take up the file if it changed."""
        try:
            found = await asyncio.to_thread(self._changed)
            if found is None:
                return
            await self._apply(found)
        except (OSError, OperatorError, ValueError) as problem:
            _log.error(
                "A changed configuration file cannot be used; the last one stays in force", file=str(self._path), err=problem
            )
            self._count("failure")
        else:
            _log.info("A changed configuration file was taken up", file=str(self._path))
            self._count("success")

    def _read(self) -> tuple[tuple[int, int], bytes]:
        status = self._path.stat()
        return (status.st_mtime_ns, status.st_ino), self._path.read_bytes()

    def _changed(self) -> bytes | None:
        status = self._path.stat()
        stamp = status.st_mtime_ns, status.st_ino
        if stamp == self._stamp:
            return None
        self._stamp, data = stamp, self._path.read_bytes()
        if data == self._seen:
            return None
        self._seen = data
        return data

    def _count(self, status: str) -> None:
        if self._reloads is not None and self._last is not None:
            self._reloads.labels(status).inc()
            self._last.labels(status).set(time.time())

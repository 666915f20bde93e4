"""Configuration files that count again when they change: AuthenticationConfiguration, AuthorizationConfiguration, ABAC policies.

A file that cannot be used leaves what was read before in force; metrics (upstream's names) and the log say so.
``assembly.server`` starts one task per file.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from component import logs
from component.errors import OperatorError
from component.reloads import Reloads

_log = logs.get(__name__)
LOOK_SECONDS = 1.0

Apply = Callable[[bytes], Awaitable[None]]
"""Takes up the content of the file. Raises OperatorError or ValueError, and changes nothing then."""


class ConfigFile:
    """``reloads`` is what metrics are told."""

    def __init__(self, path: Path, apply: Apply) -> None:
        self._path, self._apply = path, apply
        self._seen: bytes | None = None
        self._stamp: tuple[int, int] | None = None
        self.reloads = Reloads()

    async def start(self) -> None:
        """Note the content that is in force already."""
        self._stamp, self._seen = await asyncio.to_thread(self._read)
        self.reloads = Reloads(self._seen)

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
            self.reloads.note(None)
        else:
            _log.info("A changed configuration file was taken up", file=str(self._path))
            self.reloads.note(found)

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

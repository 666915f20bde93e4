"""``/containerLogs``: read a container's log, and go on reading while it grows. Called by ``routes.py``."""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from datetime import datetime, timedelta

from apimachinery import errors, times
from node.kubelet.interface import ContainerLog
from node.kubelet.server import log_file
from node.kubelet.server.cri_log import Converter, Options

_CHUNK = 256 * 1024
_PATIENCE = 1.0  # seconds between two looks at whether the container still runs
_GATHER = 0.01  # seconds in which a busy writer's lines come together, so that each does not cost a round
_LONGEST_LINE = 1 << 20

Running = Callable[[], Awaitable[bool]]


def parse_options(query: Mapping[str, str], now: datetime) -> Options:
    """From URL parameters. Raises StatusError 400 for what cannot be read; the API server has validated them before."""
    since = _time(query.get("sinceTime"))
    seconds = _number(query, "sinceSeconds")
    if seconds is not None:
        since = now - timedelta(seconds=seconds)
    return Options(
        follow=_flag(query, "follow"),
        tail=_number(query, "tailLines"),
        since=since,
        timestamps=_flag(query, "timestamps"),
        limit=_number(query, "limitBytes"),
        stream=query.get("stream") or "All",
    )


def _flag(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() not in ("", "false", "0")


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise errors.bad_request(f"{name}: cannot be read as a number: {text}") from None


def _time(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        return times.parse_time(text)
    except ValueError:
        raise errors.bad_request(f"sinceTime: cannot be read as RFC 3339: {text}") from None


async def read(log: ContainerLog, options: Options, running: Running) -> AsyncGenerator[bytes]:
    """Converted chunks. Ends at the end of the file or, with ``follow``, when ``running`` turns false and all is read.

    Raises StatusError 404 when there is no file, and OSError.
    """
    try:
        file = await asyncio.to_thread(log_file.open_log, log.path)
    except FileNotFoundError:
        if not options.follow or not await running():
            raise errors.not_found("log file", log.path.name) from None
        file = -1
    with log_file.Growth(log.path.parent) as growth:
        reader = _Reader(log, options, file)
        try:
            async for chunk in reader.chunks(growth, running):
                yield chunk
        finally:
            reader.close()


class _Reader:
    """The reading position of one request: an open file, an unfinished line, and the converter."""

    def __init__(self, log: ContainerLog, options: Options, file: int) -> None:
        self._path = log.path
        self._options = options
        self._file = file
        self._offset = 0
        self._unfinished = b""
        self._converter = Converter(options)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    async def chunks(self, growth: log_file.Growth, running: Running) -> AsyncGenerator[bytes]:
        if self._file >= 0 and self._options.tail is not None:
            self._offset = await asyncio.to_thread(log_file.tail_offset, self._file, self._options.tail)
        last_look = self._options.follow and not await running()
        patience = _PATIENCE
        while not self._converter.full:
            lines = await asyncio.to_thread(self._next_lines, final=not self._options.follow or last_look)
            if lines:
                if out := self._converter.convert(lines):
                    yield out
            elif not self._options.follow or last_look:
                return
            elif not await asyncio.to_thread(self._reopen_if_rotated):
                if await growth.wait(patience):
                    await asyncio.sleep(_GATHER)
                else:
                    last_look = not await running()
                    # A runtime closes the log a moment before it tells that the container has ended.
                    patience = min(_PATIENCE, max(patience, _GATHER) * 2) if not growth.closed else _GATHER

    def _next_lines(self, *, final: bool) -> bytes:
        """Complete lines from the file; b"" at its present end. ``final`` lets a last line go without an end."""
        if self._file < 0:
            return b""
        while True:
            data = os.pread(self._file, _CHUNK, self._offset)
            self._offset += len(data)
            data = self._unfinished + data
            cut = data.rfind(b"\n") + 1
            if (final and len(data) == len(self._unfinished)) or (not cut and len(data) > _LONGEST_LINE):
                cut = len(data)
            grown = len(data) > len(self._unfinished)
            self._unfinished = data[cut:]
            if cut or not grown:
                return data[:cut]

    def _reopen_if_rotated(self) -> bool:
        """Go over to the new file once the old one is read to its end; also when there was none at first."""
        if self._file >= 0 and not log_file.is_rotated(self._file, self._path):
            return False
        try:
            fresh = log_file.open_log(self._path)
        except OSError:
            return False
        if self._file >= 0 and os.fstat(self._file).st_size > self._offset:
            os.close(fresh)  # written between our last read and the rotation
            return True
        self.close()
        self._file, self._offset = fresh, 0
        return True

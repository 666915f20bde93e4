"""``/logs/``: the node's own log folder, as `kubectl get --raw /api/v1/nodes/NAME/proxy/logs/` shows it. Called by ``routes``.

Every step of a path is opened below the last one and follows no symbolic link: a log folder is written by many.
"""

import asyncio
import html
import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from aiohttp import web

from apimachinery import errors

_PIECE = 1 << 16
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Opened:
    """What a path names: a folder with its entries, or an open file of ``size`` bytes."""

    entries: Sequence[str] = ()
    descriptor: int | None = None
    size: int = 0


class NodeLogs:
    """The handler. ``root`` is None where the handler is switched off."""

    def __init__(self, root: Path | None) -> None:
        self._root = root

    async def handle(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info.get("path", "")
        if self._root is None:
            raise errors.StatusError(errors.make_status(405, "MethodNotAllowed", "logs endpoint is disabled."))
        try:
            found = await asyncio.to_thread(open_below, self._root, path)
        except OSError:  # whatever hinders: nothing is told of what lies where
            return web.Response(status=404, text="404 page not found\n")
        if found.descriptor is None:
            return web.Response(text=listing(found.entries), content_type="text/html")
        return await _send(request, found.descriptor, found.size)


def open_below(root: Path, path: str) -> Opened:
    """Raises OSError for what is not there, is neither file nor folder, or is reached through a link."""
    parts = [part for part in path.split("/") if part]
    if any(part == ".." or "\0" in part for part in parts):
        raise FileNotFoundError(path)
    at = os.open(root, _FOLDER)
    try:
        for part in parts[:-1]:
            at = _replace(at, lambda folder, part=part: os.open(part, _FOLDER, dir_fd=folder))  # type: ignore[misc]
        if not parts:
            return Opened(_entries(at))
        last = os.open(parts[-1], _FILE, dir_fd=at)
        try:
            facts = os.fstat(last)
            if stat.S_ISDIR(facts.st_mode):
                return Opened(_entries(last))
            if not stat.S_ISREG(facts.st_mode):
                raise FileNotFoundError(path)
            kept, last = last, -1
            return Opened(descriptor=kept, size=facts.st_size)
        finally:
            if last >= 0:
                os.close(last)
    finally:
        os.close(at)


def _replace(folder: int, following: Callable[[int], int]) -> int:
    opened = following(folder)
    os.close(folder)
    return opened


def _entries(folder: int) -> list[str]:
    with os.scandir(folder) as found:
        return sorted(entry.name + "/" * entry.is_dir(follow_symlinks=False) for entry in found)


def listing(entries: Sequence[str]) -> str:
    """A page of links, as Go's file server writes it."""
    lines = [f'<a href="{quote(entry)}">{html.escape(entry)}</a>' for entry in entries]
    return "\n".join(["<pre>", *lines, "</pre>", ""])


async def _send(request: web.Request, descriptor: int, size: int) -> web.StreamResponse:
    """``size`` bytes, even if the file grows meanwhile."""
    response = web.StreamResponse(headers={"Content-Type": "text/plain; charset=utf-8", "Content-Length": str(size)})
    try:
        await response.prepare(request)
        left = size
        with suppress(ConnectionError):
            while left > 0:
                piece = await asyncio.to_thread(os.read, descriptor, min(left, _PIECE))
                if not piece:  # cut meanwhile: the connection tells that something is missing
                    request.transport.close() if request.transport is not None else None
                    break
                await response.write(piece)
                left -= len(piece)
            await response.write_eof()
    finally:
        os.close(descriptor)
    return response

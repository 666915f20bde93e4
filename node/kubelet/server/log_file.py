"""One log file on disk, opened without following links; its last lines; and a wait for it to grow.

Everything but :class:`Growth` blocks and is called in a thread by ``logs.py``.
"""

import asyncio
import ctypes
import os
import stat
import struct
from pathlib import Path
from types import TracebackType

_BLOCK = 64 * 1024
_IN_MODIFY, _IN_CLOSE_WRITE, _IN_MOVED_TO, _IN_CREATE = 0x2, 0x8, 0x80, 0x100
_EVENT = struct.Struct("iIII")


def open_log(path: Path) -> int:
    """A descriptor of a regular file. Raises FileNotFoundError, and OSError for links and whatever else is no file."""
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        file = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
    finally:
        os.close(directory)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(f"{path} is not a regular file")
    return file


def is_rotated(file: int, path: Path) -> bool:
    """Whether ``path`` is now another file than the open one."""
    try:
        now = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False  # between the two steps of a rotation
    mine = os.fstat(file)
    return (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino)


def tail_offset(file: int, lines: int) -> int:
    """Where the last ``lines`` lines begin; a last line without an end counts."""
    end = os.fstat(file).st_size
    if lines <= 0:
        return end
    position, wanted = end, lines
    if end and os.pread(file, 1, end - 1) == b"\n":
        wanted += 1
    while position > 0:
        start = max(0, position - _BLOCK)
        block = os.pread(file, position - start, start)
        count = block.count(b"\n")
        if count >= wanted:
            at = len(block)
            for _ in range(wanted):
                at = block.rfind(b"\n", 0, at)
            return start + at + 1
        wanted -= count
        position = start
    return 0


class Growth:
    """Wakes when something happens in the directory of a log. Where inotify is exhausted, it only sleeps.

    Use as a context manager. A writer that closes its file is worth a look at whether the container still runs.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file = -1
        self._event = asyncio.Event()
        self.closed = False  # whether the last change, as far as waited for, was a writer closing its file

    def __enter__(self) -> "Growth":
        libc = ctypes.CDLL(None, use_errno=True)
        self._file = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._file >= 0:
            mask = _IN_MODIFY | _IN_CLOSE_WRITE | _IN_MOVED_TO | _IN_CREATE
            libc.inotify_add_watch(self._file, os.fsencode(self._directory), mask)
            asyncio.get_running_loop().add_reader(self._file, self._on_change)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._file >= 0:
            asyncio.get_running_loop().remove_reader(self._file)
            os.close(self._file)

    def _on_change(self) -> None:
        try:
            events = os.read(self._file, 16 * 1024)
        except BlockingIOError:
            return
        position, closed = 0, False
        while position < len(events):
            _, mask, _, length = _EVENT.unpack_from(events, position)
            closed |= bool(mask & _IN_CLOSE_WRITE)
            position += _EVENT.size + length
        self.closed |= closed
        self._event.set()

    async def wait(self, seconds: float) -> bool:
        """Return after a change or ``seconds``. False when it may be over: nothing came, or the writer closed its file."""
        self.closed = self.closed and self._event.is_set()
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return not self.closed

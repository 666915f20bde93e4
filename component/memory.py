"""Giving memory back: what the C library keeps of memory that the program has freed goes back to the kernel.

After a crowd has left, most of what it took lies free between blocks that are still used, and the C library does not return that
by itself. ``daemon`` starts :func:`keep_returning`.
"""

import asyncio
import contextlib
import ctypes
from typing import Any

PERIOD = 15.0  # seconds between two looks
WORTH = 24 << 20  # free bytes that are worth a trim


_FIELDS = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")


class _Info(ctypes.Structure):
    """``struct mallinfo2`` of glibc 2.33 and later."""

    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS]


def _library() -> Any:
    """The C library, if it is one that can do this."""
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL("libc.so.6")
        library.mallinfo2.restype = _Info
        library.malloc_trim.argtypes = (ctypes.c_size_t,)
        return library
    return None


def trim(worth: int = WORTH) -> bool:
    """Return free memory if there is enough of it; whether there was. Takes milliseconds: not for the event loop."""
    library = _library()
    if library is None or library.mallinfo2().fordblks < worth:
        return False
    library.malloc_trim(0)
    return True


async def keep_returning() -> None:
    """Until cancelled. Both calls let go of the interpreter while they work."""
    while True:
        await asyncio.sleep(PERIOD)
        await asyncio.to_thread(trim)

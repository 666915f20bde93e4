"""Which allocator the interpreter uses. Called by ``cli`` before anything else; ``memory`` then gives back what is free.

Python's own allocator for small objects returns only whole megabytes of which nothing is used any more: after 10,000 watches had
ended, one entry of the watch cache's history in each of them kept 160 MB. The C library's returns every free page. With it a read
costs the same, a create a tenth more, and the process takes 2 MB more at rest.
"""

import os
import sys

_CHOICE = "PYTHONMALLOC"  # read by the interpreter when it starts, and never again


def prefer_returnable() -> None:
    """Start this very command again with the C library's allocator, where that is glibc's and nobody has chosen one.

    The process stays the same one. What it had opened or begun is lost, so nothing may have been.
    """
    if _CHOICE in os.environ or not sys.executable or not _is_glibc():
        return
    os.environ[_CHOICE] = "malloc"
    os.execv(sys.executable, sys.orig_argv)  # noqa: S606 - the same program


def _is_glibc() -> bool:
    """Others (musl) are slow at small blocks, and keep what is free."""
    try:
        return (os.confstr("CS_GNU_LIBC_VERSION") or "").startswith("glibc")
    except (ValueError, OSError):
        return False

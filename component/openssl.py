"""The OpenSSL object behind an ``ssl.SSLContext``, for the few settings that the ssl module does not expose.

Used by ``tls_verdict`` and ``tls_chain``, through ctypes and the very libssl that ``_ssl`` is linked to. Where that cannot be
had (a statically linked Python, another implementation) there is none, and the settings stay as the ssl module makes them.
"""

import ctypes
import platform
import ssl
import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NativeContext:
    """``library`` has OpenSSL's functions, ``pointer`` is the ``SSL_CTX`` for them."""

    library: ctypes.CDLL
    pointer: ctypes.c_void_p


def native(context: ssl.SSLContext) -> NativeContext | None:
    """Valid as long as the context lives; None where this Python does not allow it."""
    if platform.python_implementation() != "CPython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    try:
        import _ssl

        library = ctypes.CDLL(_ssl.__file__)
        get_mode = library.SSL_CTX_get_verify_mode
    except (ImportError, AttributeError, OSError):
        return None
    # SSLContext objects begin with the usual object head, then the SSL_CTX pointer; checked before it is used.
    pointer = ctypes.c_void_p.from_address(id(context) + object.__basicsize__)
    get_mode.argtypes, get_mode.restype = [ctypes.c_void_p], ctypes.c_int
    expected = {ssl.CERT_NONE: 0, ssl.CERT_OPTIONAL: 1, ssl.CERT_REQUIRED: 3}
    if not pointer.value or get_mode(pointer) != expected[context.verify_mode]:
        return None
    return NativeContext(library, pointer)

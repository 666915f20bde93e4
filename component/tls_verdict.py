"""Lets every client certificate through the TLS handshake, for ``client_certificates`` to judge. See ``dynamic_certificates``.

The ssl module can only verify during the handshake and drops the connection on a bad certificate; upstream answers 401, or
lets the bearer token decide. OpenSSL itself can leave the verdict to the application (``SSL_CTX_set_cert_verify_callback``),
which ssl does not expose, so the very libssl that ``_ssl`` is linked to is asked through ctypes. Where that symbol cannot be
found (a statically linked Python) verification stays in the handshake: stricter, never laxer.
"""

import ctypes
import platform
import ssl
import sys

_ACCEPT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda store, argument: 1)


def leave_verdict_to_application(context: ssl.SSLContext) -> bool:
    """Make the handshake accept every client certificate. False where this Python does not allow it."""
    if platform.python_implementation() != "CPython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    try:
        import _ssl

        library = ctypes.CDLL(_ssl.__file__)
        set_callback = library.SSL_CTX_set_cert_verify_callback
        get_mode = library.SSL_CTX_get_verify_mode
    except (ImportError, AttributeError, OSError):
        return False
    # SSLContext objects begin with the usual object head, then the SSL_CTX pointer; checked before it is used.
    pointer = ctypes.c_void_p.from_address(id(context) + object.__basicsize__)
    if not pointer.value:
        return False
    get_mode.argtypes, get_mode.restype = [ctypes.c_void_p], ctypes.c_int
    if get_mode(pointer) != 1:  # SSL_VERIFY_PEER, as CERT_OPTIONAL sets it
        return False
    set_callback.argtypes, set_callback.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p], None
    set_callback(pointer, ctypes.cast(_ACCEPT, ctypes.c_void_p), None)
    return True

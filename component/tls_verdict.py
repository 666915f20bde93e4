"""Lets every client certificate through the TLS handshake, for ``client_certificates`` to judge. See ``dynamic_certificates``.

The ssl module can only verify during the handshake and drops the connection on a bad certificate; upstream answers 401, or
lets the bearer token decide. OpenSSL itself can leave the verdict to the application (``SSL_CTX_set_cert_verify_callback``).
Where that cannot be reached (``openssl``) verification stays in the handshake: stricter, never laxer.
"""

import ctypes
import ssl

from component.openssl import native

_ACCEPT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda store, argument: 1)


def leave_verdict_to_application(context: ssl.SSLContext) -> bool:
    """Make the handshake accept every client certificate. False where this Python does not allow it."""
    found = native(context)
    if found is None or context.verify_mode is not ssl.CERT_OPTIONAL:
        return False
    set_callback = getattr(found.library, "SSL_CTX_set_cert_verify_callback", None)
    if set_callback is None:
        return False
    set_callback.argtypes, set_callback.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p], None
    set_callback(found.pointer, ctypes.cast(_ACCEPT, ctypes.c_void_p), None)
    return True

"""Makes a server send the certificates of its file and no others, as upstream does. See ``dynamic_certificates``.

Left to itself OpenSSL completes the chain in every handshake from the authorities it knows, which are those of the clients:
it verifies a signature for that, an eighth of the handshake, and sends a root that the client has or does not trust.
"""

import ctypes
import ssl

from component.openssl import native

_SSL_CTRL_MODE = 33
_SSL_MODE_NO_AUTO_CHAIN = 0x8


def send_own_chain_only(context: ssl.SSLContext) -> bool:
    """False where this Python does not allow it; then OpenSSL goes on completing chains."""
    found = native(context)
    if found is None or not hasattr(found.library, "SSL_CTX_ctrl"):
        return False
    control = found.library.SSL_CTX_ctrl
    control.argtypes, control.restype = [ctypes.c_void_p, ctypes.c_int, ctypes.c_long, ctypes.c_void_p], ctypes.c_long
    return bool(control(found.pointer, _SSL_CTRL_MODE, _SSL_MODE_NO_AUTO_CHAIN, None) & _SSL_MODE_NO_AUTO_CHAIN)

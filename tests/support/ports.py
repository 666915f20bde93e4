"""Ports for servers that have to be told one before they start. Used wherever a test cannot let the server choose (``:0``).

A port that is merely seen free is lost again at once: the kernel may give it to the next who asks, in this process or in
another run beside it. So it is kept: a socket stays bound to it with ``SO_REUSEADDR`` and never listens. The kernel then
gives the port to nobody, neither for a ``:0`` nor for an outgoing connection, while a server that sets ``SO_REUSEADDR``
as well (Go's and asyncio's do) may bind it and listen: socket(7). Until then, who connects is refused.
"""

import socket
from collections import deque

_KEPT: deque[socket.socket] = deque(maxlen=300)
"""Those handed out last: more than live at once, and far fewer than a process may have files open (1,024)."""


def free_port() -> int:
    """A TCP port of this network namespace's loopback that nobody else is given while this process needs it."""
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    if len(_KEPT) == _KEPT.maxlen:
        _KEPT.popleft().close()
    _KEPT.append(kept)
    return int(kept.getsockname()[1])

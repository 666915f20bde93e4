"""Saying goodbye to a client that still sends what nobody will read: a head that has become too large, bytes that are not HTTP.

TLS closes a connection in good order only by reading, decrypting and dropping whatever its peer still sends; a hundred clients
that never stop cost more than all others. Here the last words are written, nothing is read any more, so that the kernel holds the
client back, and after a moment in which the words can arrive the connection is cut. Used by ``server``.
"""

import asyncio
from typing import Any

GOODBYE_SECONDS = 1.0


class Refusal:
    """In the place of a transport from when its client is refused. What is not said here is the transport's.

    :param leaving: where it is kept from its closing until it is cut, so that the end of the server can cut it.
    """

    def __init__(self, transport: asyncio.Transport, leaving: "set[Refusal]") -> None:
        self._transport, self._all = transport, leaving
        self._timer: asyncio.TimerHandle | None = None
        if not transport.is_closing():
            transport.pause_reading()

    def close(self) -> None:
        """Cut the connection in a moment. May be called again."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GOODBYE_SECONDS, self.cut)
            self._all.add(self)

    def cut(self) -> None:
        """At once. May be called again."""
        if self._timer is not None:
            self._timer.cancel()
        self._all.discard(self)
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._timer is not None or self._transport.is_closing()

    def pause_reading(self) -> None:
        """It is."""

    def resume_reading(self) -> None:
        """Never again."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

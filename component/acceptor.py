"""Taking in connections a few at a time, so that a crowd at the door does not keep those inside from being served.

An event loop's own listener accepts all that wait, and then all of their TLS handshakes (half a millisecond each) are done in one
go. Here a few are accepted in each turn of the loop, the rest waits in the kernel. There are never more connections than the
process has files for. Used by ``serving``.
"""

import asyncio
import resource
import socket
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, cast

from aiohttp import web

from component import logs

AT_ONCE = 2  # connections in one turn of the loop
GREETING = 6  # handshakes under way at once, as long as they are quick
QUICK_SECONDS = 0.05  # one that takes longer waits for its client, and holds up nobody
HANDSHAKE_SECONDS = 30.0
RESERVED = 256  # files that are for other things than connections
FULL_SECONDS = 0.2  # until a full server looks whether somebody has left
SILENT_SECONDS = 60.0  # between two complaints about that
_log = logs.get(__name__)


def most_connections() -> int:
    """As many as the limit on open files leaves room for."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(soft - RESERVED, 16) if soft != resource.RLIM_INFINITY else 1_000_000


class Acceptor:
    """Listening on some sockets until it is closed. ``count`` says how many connections there are."""

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        factory: Callable[[], asyncio.Protocol],
        context: ssl.SSLContext | None,
        count: Callable[[], int],
        most: int,
    ) -> None:
        self.sockets = tuple(sockets)
        self._factory, self._context, self._count, self._most = factory, context, count, most
        self._loop = asyncio.get_running_loop()
        self._greeting: set[asyncio.Task[None]] = set()
        self._full: asyncio.TimerHandle | None = None  # set while nobody is accepted
        self._begun: deque[float] = deque()  # when the quick ones among the handshakes under way began
        self._silent_until = 0.0
        self._closed = False
        self._listen()

    def close(self) -> None:
        """Take in nobody any more. Who is inside stays; who is being greeted is turned away."""
        if self._closed:
            return
        self._closed = True
        if self._full is None:
            self._rest()
        else:
            self._full.cancel()
        for each in self.sockets:
            each.close()
        for task in self._greeting:
            task.cancel()

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._greeting, return_exceptions=True)

    def _listen(self) -> None:
        for each in self.sockets:
            self._loop.add_reader(each.fileno(), self._accept, each)

    def _rest(self) -> None:
        for each in self.sockets:
            self._loop.remove_reader(each.fileno())

    def _accept(self, listener: socket.socket) -> None:
        now = self._loop.time()
        begun = self._begun
        while begun and begun[0] < now - QUICK_SECONDS:
            begun.popleft()
        for _ in range(AT_ONCE):
            if len(begun) >= GREETING:
                self._rest()
                self._full = self._loop.call_later(QUICK_SECONDS / 4, self._again)
                return
            if self._count() + len(self._greeting) >= self._most:
                self._pause("Open files leave no room for more connections", limit=self._most)
                return
            try:
                accepted, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no more files or memory
                self._pause("Cannot accept connections", err=error)
                return
            accepted.setblocking(False)
            begun.append(now)
            task = self._loop.create_task(self._greet(accepted), name="greet-connection")
            self._greeting.add(task)
            task.add_done_callback(self._greeting.discard)

    async def _greet(self, accepted: socket.socket) -> None:
        """Through the handshake. A client that fails it is nobody's concern."""
        options: dict[str, Any] = {}
        if self._context is not None:
            options = {"ssl": self._context, "ssl_handshake_timeout": HANDSHAKE_SECONDS}
        try:
            await self._loop.connect_accepted_socket(self._factory, accepted, **options)
        except (OSError, TimeoutError):
            accepted.close()
        except asyncio.CancelledError:
            accepted.close()
            raise
        finally:
            if self._begun:
                self._begun.popleft()  # whichever: what counts is how many there are

    def _pause(self, text: str, **more: Any) -> None:
        now = self._loop.time()
        if now >= self._silent_until:
            self._silent_until = now + SILENT_SECONDS
            _log.warning(text, connections=self._count(), **more)
        self._rest()
        self._full = self._loop.call_later(FULL_SECONDS, self._again)

    def _again(self) -> None:
        if self._count() + len(self._greeting) >= self._most:
            self._full = self._loop.call_later(FULL_SECONDS, self._again)
            return
        self._full = None
        self._listen()


class PacedSite(web.TCPSite):
    """aiohttp's place to listen at, with an :class:`Acceptor` in it."""

    def __init__(self, runner: web.BaseRunner, host: str, port: int, *, most: int | None = None, **options: Any) -> None:
        super().__init__(runner, host, port, **options)
        self._most = most if most is not None else most_connections()

    async def start(self) -> None:
        """Raises OSError when the address cannot be had."""
        await web.BaseSite.start(self)
        server = self._runner.server
        assert server is not None
        held = server._connections  # the list that the public property makes of it would be made anew for each connection
        sockets = await self._bind()
        acceptor = Acceptor(sockets, server, self._ssl_context, lambda: len(held), self._most)
        self._server = cast("asyncio.AbstractServer", acceptor)  # as much of one as aiohttp needs
        self._bound_port = sockets[0].getsockname()[1]

    async def _bind(self) -> list[socket.socket]:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(self._host or None, self._port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        sockets: list[socket.socket] = []
        try:
            for family, kind, protocol, _, address in dict.fromkeys(found):
                made = socket.socket(family, kind, protocol)
                sockets.append(made)
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if self._reuse_port:
                    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                if family == socket.AF_INET6:
                    made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                made.bind(address)
                made.listen(self._backlog)
                made.setblocking(False)
        except OSError:
            for each in sockets:
                each.close()
            raise
        return sockets

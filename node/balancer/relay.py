"""Bytes from a client to an API server and back, untouched: TLS goes through. Started by ``__main__``.

Each direction waits when the other side is slow; a half that has been closed stays closed alone until the other is, too.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import cast

from component import logs
from node.balancer.servers import Server, Servers, State

CONNECT_SECONDS = 1.0
MAX_CLIENTS = 20_000

_log = logs.get(__name__)


class Side(asyncio.Protocol):
    """One end of a relayed connection."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.peer: Side | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's has the methods, but not the class

    def data_received(self, data: bytes) -> None:
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.write(data)

    def eof_received(self) -> bool:
        other = self.peer.transport if self.peer is not None else None
        if other is not None and other.can_write_eof() and not other.is_closing():
            other.write_eof()
        return True

    def pause_writing(self) -> None:
        if self.peer is not None and self.peer.transport is not None:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.peer is not None and self.peer.transport is not None and not self.peer.transport.is_closing():
            self.peer.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self.close()

    def close(self) -> None:
        """Both ends; what was written is still sent."""
        for side in (self, self.peer):
            if side is not None and side.transport is not None and not side.transport.is_closing():
                side.transport.close()

    def abort(self) -> None:
        """Both ends at once: nobody is listening any more."""
        for side in (self, self.peer):
            if side is not None and side.transport is not None:
                side.transport.abort()


class Upstream(Side):
    """The end at the API server; counted there while it lasts."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._server.closers.add(self.abort)
        self._server.served += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.closers.discard(self.abort)
        super().connection_lost(exc)


class Client(Side):
    """The end at the client. What it says before there is somewhere to send it is kept, one read of it."""

    def __init__(self, arrived: Callable[["Client"], None], gone: Callable[["Client"], None]) -> None:
        super().__init__()
        self._arrived, self._gone = arrived, gone
        self._early: list[bytes] = []
        self._ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._arrived(self)

    def data_received(self, data: bytes) -> None:
        if self.peer is not None:
            super().data_received(data)
            return
        self._early.append(data)
        assert self.transport is not None
        self.transport.pause_reading()

    def eof_received(self) -> bool:
        self._ended = True
        return super().eof_received()

    def join(self, upstream: Upstream) -> None:
        """From now on both ends are one."""
        self.peer, upstream.peer = upstream, self
        assert self.transport is not None
        if self.transport.is_closing():
            upstream.close()
            return
        early, self._early = self._early, []
        for data in early:
            super().data_received(data)
        if self._ended:
            super().eof_received()
        else:
            self.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone(self)
        super().connection_lost(exc)


class Relay:
    """Made inside the TaskGroup that runs its connecting; ``client`` is the protocol factory of the listener."""

    def __init__(self, servers: Servers, tasks: asyncio.TaskGroup) -> None:
        self._servers, self._tasks = servers, tasks
        self._clients: set[Client] = set()

    def client(self) -> Client:
        return Client(self._arrived, self._clients.discard)

    def _arrived(self, client: Client) -> None:
        self._clients.add(client)
        if len(self._clients) > MAX_CLIENTS:
            _log.warning("Too many connections; refusing another", connections=MAX_CLIENTS)
            client.close()
            return
        self._tasks.create_task(self._connect(client))

    async def _connect(self, client: Client) -> None:
        loop = asyncio.get_running_loop()
        for server in self._servers.candidates():
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    _, upstream = await loop.create_connection(partial(Upstream, server), server.host, server.port)
            except (OSError, TimeoutError) as error:
                if server.state in (State.READY, State.UNKNOWN):
                    _log.info("API server does not take connections", server=server.name, err=error)
                    self._servers.report(server, State.DEAD)
                continue
            client.join(upstream)
            return
        client.close()

    def close(self) -> None:
        for client in list(self._clients):
            client.close()

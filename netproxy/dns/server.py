"""The two doors of the DNS server: datagrams, and connections with framed messages. Opened by ``__main__``; ask ``responder``.

Whatever a client does, what is held for it is bounded: a connection has an idle time, a number of questions that may wait and
a number of bytes that may be unread; there are so many connections and so many waiting datagrams in all, and of one address
so many that others find room.
"""

import asyncio
import contextlib
import socket
import struct
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import cast

from component import logs
from component.errors import OperatorError
from netproxy.dns import wire
from netproxy.dns.responder import Door, Later, Responder

_log = logs.get(__name__)
IDLE_SECONDS = 10.0
"""For the next question on a connection, and for a client to take an answer."""
CONNECTIONS, CONNECTIONS_OF_ONE = 1000, 200
PIPELINED = 64
"""Questions of one connection that may wait; reading stops until one is answered."""
WAITING, WAITING_OF_ONE = 4096, 1024
"""Datagrams that wait for a resolver; the forwarder refuses earlier, unless many ask the same."""
_RECEIVE_BUFFER = 4 << 20
_LENGTH = struct.Struct("!H")


class Datagrams(asyncio.DatagramProtocol):
    """Answers most datagrams in the call that brings them; the rest by a task each."""

    def __init__(self, responder: Responder) -> None:
        self._responder = responder
        self._transport: asyncio.DatagramTransport | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._by_source = Counter[str]()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)  # uvloop's is no subclass

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        for task in self._tasks:
            task.cancel()

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if addr[1] == 0:
            return
        reply = self._responder.respond(data, Door("udp", addr[0]))
        if isinstance(reply, bytes):
            self._send(reply, addr)
        elif len(self._tasks) >= WAITING or self._by_source[addr[0]] >= WAITING_OF_ONE:
            reply.close()
        else:
            self._by_source[addr[0]] += 1
            task = asyncio.create_task(self._later(reply, addr), name="dns-query")
            self._tasks.add(task)
            task.add_done_callback(lambda done: self._done(done, addr[0]))

    def _done(self, task: asyncio.Task[None], source: str) -> None:
        self._tasks.discard(task)
        _release(self._by_source, source)

    async def _later(self, reply: Later, addr: tuple[str, int]) -> None:
        try:
            self._send(await reply, addr)
        except Exception as error:
            _log.exception("Query failed", err=error)

    def _send(self, reply: bytes, addr: tuple[str, int]) -> None:
        if reply and self._transport is not None:
            self._transport.sendto(reply, addr)

    def error_received(self, exc: Exception) -> None:
        _log.v(4, "Answer could not be sent", err=exc)


class Connections:
    """Serves framed messages; answers come in the order in which they are ready, as RFC 7766 has it."""

    def __init__(self, responder: Responder) -> None:
        self._responder = responder
        self._open: set[asyncio.Task[None]] = set()
        self._by_source = Counter[str]()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        source = (writer.get_extra_info("peername") or ("",))[0]
        if not source or len(self._open) >= CONNECTIONS or self._by_source[source] >= CONNECTIONS_OF_ONE:
            writer.close()
            return
        self._open.add(task)
        self._by_source[source] += 1
        try:
            async with asyncio.TaskGroup() as group:
                await self._serve(reader, writer, group, Door("tcp", source))
            await _close(writer)
        except* (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass  # the client went away, or stopped reading
        except* Exception as failed:
            _log.exception("Connection failed", err=failed)
        finally:
            self._open.discard(task)
            _release(self._by_source, source)
            # to close politely is to wait for a client to read, who may never do so
            writer.transport.abort()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, group: asyncio.TaskGroup, door: Door
    ) -> None:
        slots = asyncio.Semaphore(PIPELINED)
        while True:
            async with asyncio.timeout(IDLE_SECONDS):
                head = await reader.read(1)
                if not head:
                    return
                (length,) = _LENGTH.unpack(head + await reader.readexactly(1))
                data = await reader.readexactly(length)
            reply = self._responder.respond(data, door)
            if isinstance(reply, bytes):
                if not reply:
                    return  # no question at all
                await _write(writer, reply)
                continue
            await slots.acquire()
            group.create_task(self._later(reply, writer, slots), name="dns-query")

    async def _later(self, reply: Later, writer: asyncio.StreamWriter, slots: asyncio.Semaphore) -> None:
        try:
            await _write(writer, await reply)
        finally:
            slots.release()

    async def close(self) -> None:
        """End what is still open."""
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)


def _release(counts: Counter[str], source: str) -> None:
    counts[source] -= 1
    if counts[source] <= 0:
        del counts[source]


async def _write(writer: asyncio.StreamWriter, reply: bytes) -> None:
    async with asyncio.timeout(IDLE_SECONDS):
        writer.write(_LENGTH.pack(len(reply)) + reply)
        await writer.drain()


async def _close(writer: asyncio.StreamWriter) -> None:
    """Once the client has taken what it was answered."""
    writer.close()
    async with asyncio.timeout(IDLE_SECONDS):
        await writer.wait_closed()


@asynccontextmanager
async def listening(responder: Responder, hosts: Sequence[str], port: int) -> AsyncIterator[list[tuple[str, int]]]:
    """Answer on each address, by UDP and TCP on the same port, inside the block; gives the addresses.

    :raises OperatorError: naming the address, when it cannot be bound.
    """
    loop = asyncio.get_running_loop()
    async with contextlib.AsyncExitStack() as stack:
        connections = Connections(responder)
        stack.push_async_callback(connections.close)
        bound = []
        for host in hosts:
            stream, datagram = _sockets(host, port)
            server = await asyncio.start_server(connections, sock=stream, limit=wire.LARGEST, backlog=128)
            stack.callback(server.close)
            transport, _ = await loop.create_datagram_endpoint(lambda: Datagrams(responder), sock=datagram)
            stack.callback(transport.close)
            bound.append((host, int(stream.getsockname()[1])))
        yield bound


def _sockets(host: str, port: int) -> tuple[socket.socket, socket.socket]:
    """A stream and a datagram socket on one port; of the kernel's choice when it is 0."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.ExitStack() as undo:
        stream = undo.enter_context(socket.socket(family, socket.SOCK_STREAM))
        datagram = undo.enter_context(socket.socket(family, socket.SOCK_DGRAM))
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # a burst must not be lost while the loop is at something else
        datagram.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        for each in (stream, datagram):
            each.setblocking(False)
        if family == socket.AF_INET6:
            for each in (stream, datagram):
                each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            stream.bind((host, port))
            datagram.bind((host, stream.getsockname()[1]))
        except OSError as error:
            raise OperatorError(f"cannot answer DNS on {host} port {port}: {error.strerror}") from None
        undo.pop_all()
        return stream, datagram

"""One question to one resolver: UDP from a socket of its own, then TCP for what was cut. Used by ``forward``.

A forger must guess a random id and a random port, and the kernel lets only the resolver's address through; an answer to any
other question than ours is not looked at.
"""

import asyncio
import os
import struct
from dataclasses import dataclass

import dns.exception
import dns.message

from netproxy.dns import wire

_LENGTH = struct.Struct("!H")
_HEADER = struct.Struct("!HHHHHH")
_MAX_STRAY = 32
"""Messages that do not answer our question, before we give up on the resolver: somebody is guessing."""


class UpstreamError(Exception):
    """No usable answer; the text says why."""


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int = 53

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def question_message(query: wire.Query, *, options: bool = True) -> bytes:
    """Our own message for a client's question: a new id, recursion wanted, and with options room for an unfragmented answer."""
    ident = int.from_bytes(os.urandom(2), "big")
    head = _HEADER.pack(ident, wire.RD | (query.flags & wire.CD), 1, 0, 0, int(options))
    return head + query.question + (wire.options(query.do) if options else b"")


def is_answer(message: bytes, data: bytes) -> bool:
    """Whether ``data`` answers our ``message``: same id, same question."""
    if len(data) < 12 or data[:2] != message[:2] or not data[2] & 0x80 or data[4:6] != b"\0\1":
        return False
    end = len(message) - 11 * message[11]  # without the options
    return data[12:end].lower() == message[12:end].lower()


def rejects_options(message: bytes, data: bytes) -> bool:
    """Whether an old resolver, one without EDNS, cannot read our ``message``; it may leave the question out (RFC 6891, 7)."""
    if len(data) < 12 or data[:2] != message[:2] or not data[2] & 0x80 or not message[11]:
        return False
    return data[3] & 15 in (wire.FORMERR, wire.NOTIMP) and data[10:12] == b"\0\0"


class _Datagrams(asyncio.DatagramProtocol):
    """Waits for the one datagram that answers."""

    def __init__(self, message: bytes) -> None:
        self._message, self._stray = message, 0
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def datagram_received(self, data: bytes, addr: object) -> None:
        if self.answer.done():
            return
        if is_answer(self._message, data) or rejects_options(self._message, data):
            self.answer.set_result(data)
            return
        self._stray += 1
        if self._stray >= _MAX_STRAY:
            self._fail("too many answers to questions that were not asked")

    def error_received(self, exc: Exception) -> None:
        self._fail(str(exc) or type(exc).__name__)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail("closed")

    def _fail(self, why: str) -> None:
        if not self.answer.done():
            self.answer.set_exception(UpstreamError(why))
            self.answer.exception()  # somebody may have stopped waiting


async def exchange(address: Address, query: wire.Query, seconds: float) -> dns.message.Message:
    """Ask, within ``seconds`` for each transport. Raises UpstreamError."""
    message = question_message(query)
    try:
        async with asyncio.timeout(seconds):
            data = await _by_udp(address, message)
            if rejects_options(message, data):
                message = question_message(query, options=False)
                data = await _by_udp(address, message)
        if data[2] & (wire.TC >> 8):
            async with asyncio.timeout(seconds):
                data = await _by_tcp(address, message)
        return dns.message.from_wire(data, ignore_trailing=True)
    except TimeoutError:
        raise UpstreamError(f"no answer within {seconds:g} s") from None
    except OSError as error:
        raise UpstreamError(error.strerror or str(error)) from None
    except (dns.exception.DNSException, ValueError, struct.error) as error:
        raise UpstreamError(f"malformed answer: {type(error).__name__}") from None


async def _by_udp(address: Address, message: bytes) -> bytes:
    loop = asyncio.get_running_loop()
    where = (address.host, address.port)
    transport, protocol = await loop.create_datagram_endpoint(lambda: _Datagrams(message), remote_addr=where)
    try:
        transport.sendto(message)
        return await protocol.answer
    finally:
        transport.close()


async def _by_tcp(address: Address, message: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(_LENGTH.pack(len(message)) + message)
        (length,) = _LENGTH.unpack(await reader.readexactly(2))
        data = await reader.readexactly(length)
    except asyncio.IncompleteReadError:
        raise UpstreamError("the connection ended early") from None
    finally:
        writer.close()
    if not is_answer(message, data):
        raise UpstreamError("an answer to another question")
    return data

"""Netlink, as much as ``conntrack``, ``ipvs`` and ``addresses`` need: messages, attributes, batches with their answers.

pyroute2 would do it for 100 to 200 us a message, on a thread that shares its interpreter with the kubelet; a node with 5,000
Services needs 20,000 messages at once.
"""

import socket
import struct
from collections.abc import Iterator, Sequence
from typing import Final

ROUTE: Final = 0
NETFILTER: Final = 12
GENERIC: Final = 16
REQUEST, ACK, REPLACE, EXCLUSIVE, CREATE, DUMP = 1, 4, 0x100, 0x200, 0x400, 0x300
ERROR, DONE = 2, 3
NESTED: Final = 0x8000
HEADER = struct.Struct("=IHHII")
ATTRIBUTE = struct.Struct("=HH")
_BATCH: Final = 64
"""Messages sent before their answers are read: all of these must fit into the socket's buffer."""


def open_socket(protocol: int) -> socket.socket:
    """A socket in the network namespace of the calling thread, with ten seconds for each answer. :raises OSError:"""
    link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
    link.settimeout(10)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    link.bind((0, 0))
    return link


def message(kind: int, flags: int, body: bytes, sequence: int = 1) -> bytes:
    return HEADER.pack(HEADER.size + len(body), kind, flags, sequence, 0) + body


def messages(data: bytes) -> Iterator[tuple[int, memoryview]]:
    """Type and body of each message of a datagram."""
    view, offset = memoryview(data), 0
    while offset + HEADER.size <= len(view):
        length, kind, _, _, _ = HEADER.unpack_from(view, offset)
        yield kind, view[offset + HEADER.size : offset + length]
        offset += (length + 3) & ~3


def attribute(kind: int, payload: bytes) -> bytes:
    """One attribute, padded. ``kind | NESTED`` for one that holds others."""
    return ATTRIBUTE.pack(4 + len(payload), kind) + payload + bytes(-len(payload) % 4)


def attributes(data: memoryview) -> Iterator[tuple[int, memoryview, memoryview]]:
    """Type, payload and the whole attribute with its header."""
    offset = 0
    while offset + 4 <= len(data):
        length, kind = ATTRIBUTE.unpack_from(data, offset)
        if length < 4:
            return
        yield kind & 0x3FFF, data[offset + 4 : offset + length], data[offset : offset + length]
        offset += (length + 3) & ~3


def by_kind(data: memoryview) -> dict[int, memoryview]:
    """Payloads by type."""
    return {kind: payload for kind, payload, _ in attributes(data)}


def error_of(body: memoryview) -> int:
    """The errno of an answer of type ``ERROR``, 0 for success."""
    return -int(struct.unpack_from("=i", body)[0])


def dump(link: socket.socket, kind: int, body: bytes) -> Iterator[memoryview]:
    """Bodies of everything that a dump lists. :raises OSError: when it is refused."""
    link.send(message(kind, REQUEST | DUMP, body))
    while True:
        for answer, found in messages(link.recv(1 << 18)):
            if answer == DONE:
                return
            if answer == ERROR:
                code = error_of(found)
                if code == 0:
                    return
                raise OSError(code, "the kernel refuses to list")
            yield found


def batch(link: socket.socket, requests: Sequence[tuple[int, int, bytes]]) -> list[int]:
    """Send all, each a type, flags and a body; the errno of each, 0 for success. One that is refused stops no other."""
    codes: list[int] = []
    for start in range(0, len(requests), _BATCH):
        part = requests[start : start + _BATCH]
        link.send(b"".join(_padded(message(kind, flags | REQUEST | ACK, body)) for kind, flags, body in part))
        missing = len(part)
        while missing:
            for answer, found in messages(link.recv(1 << 18)):
                if answer == ERROR:
                    codes.append(error_of(found))
                    missing -= 1
    return codes


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)

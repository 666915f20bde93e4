"""WebSocket (RFC 6455) without I/O: handshake values, frames in, frames out. ``wsocket.py`` puts it on a transport.

aiohttp has WebSockets of its own, but only for whoever leaves the connection to it; the API server and the kubelet hand
connections from HTTP to SPDY to raw bytes, so all formats here share one shape.
"""

import base64
import hashlib
import os
import struct
from dataclasses import dataclass, field

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
NORMAL, PROTOCOL_ERROR, UNSUPPORTED, INVALID_DATA, TOO_BIG, INTERNAL_ERROR = 1000, 1002, 1003, 1007, 1009, 1011

MAX_MESSAGE = 1 << 20  # kubectl sends 32 KiB at a time
_ACCEPT_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class WebSocketError(Exception):
    """The peer broke the protocol. ``code`` goes into our close frame."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Message:
    """A whole message, or a control frame: ``opcode`` is TEXT, BINARY, CLOSE, PING or PONG."""

    opcode: int
    data: bytes


def new_key() -> str:
    return base64.b64encode(os.urandom(16)).decode()


def accept_value(key: str) -> str:
    """``Sec-WebSocket-Accept`` for a ``Sec-WebSocket-Key``."""
    digest = hashlib.sha1(key.encode() + _ACCEPT_GUID, usedforsecurity=False).digest()
    return base64.b64encode(digest).decode()


def mask(data: bytes, key: bytes) -> bytes:
    """XOR with the repeated 4-byte key, as one big integer: 1 GB/s where a loop would do 10 MB/s."""
    if not data:
        return data
    count = len(data)
    pattern = (key * (count // 4 + 1))[:count]
    return (int.from_bytes(data, "little") ^ int.from_bytes(pattern, "little")).to_bytes(count, "little")


def frame(opcode: int, parts: tuple[bytes, ...], *, masked: bool) -> list[bytes]:
    """One final frame whose payload is ``parts`` joined; as chunks, so that big payloads of a server are not copied."""
    length = sum(map(len, parts))
    bit = 0x80 if masked else 0
    if length < 126:
        head = struct.pack(">BB", 0x80 | opcode, bit | length)
    elif length < 1 << 16:
        head = struct.pack(">BBH", 0x80 | opcode, bit | 126, length)
    else:
        head = struct.pack(">BBQ", 0x80 | opcode, bit | 127, length)
    if not masked:
        return [head, *parts]
    key = os.urandom(4)
    return [head, key, mask(b"".join(parts), key)]


def close_payload(code: int, reason: str = "") -> bytes:
    return struct.pack(">H", code) + reason.encode()[:123]


@dataclass(slots=True)
class Parser:
    """Bytes to messages. ``client`` tells which end we are: a server demands masked frames, a client unmasked ones."""

    client: bool
    _buffer: bytearray = field(default_factory=bytearray)
    _fragments: list[bytes] = field(default_factory=list)
    _opcode: int = 0

    def receive(self, data: bytes) -> list[Message]:
        """Feed bytes split anywhere. Raises WebSocketError."""
        self._buffer += data
        messages = []
        position = 0
        while (found := self._frame_at(position)) is not None:
            position, final, opcode, payload = found
            if (message := self._assemble(final, opcode, payload)) is not None:
                messages.append(message)
        del self._buffer[:position]
        return messages

    def _frame_at(self, start: int) -> tuple[int, bool, int, bytes] | None:
        """The frame that starts at ``start`` with the position after it; None when it is not complete."""
        buffer = self._buffer
        if len(buffer) - start < 2:
            return None
        first, second = buffer[start], buffer[start + 1]
        if first & 0x70:
            raise WebSocketError(PROTOCOL_ERROR, "reserved bits are set")
        if bool(second & 0x80) == self.client:
            raise WebSocketError(PROTOCOL_ERROR, "a masked frame" if self.client else "a frame without mask")
        length, position = second & 0x7F, start + 2
        if length > 125:
            width = 2 if length == 126 else 8
            if len(buffer) < position + width:
                return None
            length = int.from_bytes(buffer[position : position + width], "big")
            position += width
        if length > MAX_MESSAGE:
            raise WebSocketError(TOO_BIG, f"a frame of {length} bytes")
        key = b""
        if not self.client:
            key = bytes(buffer[position : position + 4])
            position += 4
        if len(buffer) < position + length:
            return None
        payload = bytes(memoryview(buffer)[position : position + length])
        return position + length, bool(first & 0x80), first & 0x0F, mask(payload, key) if key else payload

    def _assemble(self, final: bool, opcode: int, payload: bytes) -> Message | None:
        if opcode >= CLOSE:
            if not final or len(payload) > 125 or opcode > PONG:
                raise WebSocketError(PROTOCOL_ERROR, f"bad control frame {opcode}")
            return Message(opcode, payload)
        if opcode > BINARY or (opcode == CONTINUATION) != bool(self._opcode):
            raise WebSocketError(PROTOCOL_ERROR, f"frame {opcode} out of place")
        if opcode and final:
            return Message(opcode, payload)
        self._opcode = self._opcode or opcode
        self._fragments.append(payload)
        if sum(map(len, self._fragments)) > MAX_MESSAGE or len(self._fragments) > 4096:
            raise WebSocketError(TOO_BIG, "a message in too many pieces")
        if not final:
            return None
        message = Message(self._opcode, b"".join(self._fragments))
        self._fragments.clear()
        self._opcode = 0
        return message

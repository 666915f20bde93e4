"""SPDY/3.1 without I/O: bytes in, events out; calls in, bytes out. ``session.py`` puts it on a transport.

What Kubernetes speaks for exec, attach and port-forward is SPDY/3.1 as the Go library spdystream has it. Two of its habits
shape this module. It never sends WINDOW_UPDATE, so a sender that obeyed the initial window would stop after 64 KiB: windows
are kept, by us as well, only once the peer has shown that it keeps them (any SETTINGS or WINDOW_UPDATE); until then TCP
holds senders back. To send updates to a peer that ignores them would even do harm: after it has closed its socket, they make
its kernel reset the connection and drop the last of its output. And it drops data for a stream that it has not replied to,
so a client sends data only after SYN_REPLY, and a server replies at once.
"""

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from component.streams.spdy_dictionary import DICTIONARY

VERSION = 3
SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY, HEADERS, WINDOW_UPDATE = 1, 2, 3, 4, 6, 7, 8, 9
FLAG_FIN, FLAG_UNIDIRECTIONAL = 1, 2

PROTOCOL_ERROR, INVALID_STREAM, REFUSED_STREAM, CANCEL, FLOW_CONTROL_ERROR = 1, 2, 3, 5, 7
STREAM_IN_USE, STREAM_ALREADY_CLOSED = 8, 9

INITIAL_WINDOW = 64 * 1024
MAX_CONTROL = 64 * 1024  # no header block of ours comes near it
MAX_HEADERS = 256 * 1024  # after decompression
MAX_DATA = 64 * 1024
MAX_STREAMS = 1024
UNLIMITED = 1 << 31

_SETTINGS_INITIAL_WINDOW = 7
_HEAD = struct.Struct(">II")
_WORD = struct.Struct(">I")


class ProtocolError(Exception):
    """The peer broke the protocol; the connection cannot go on."""


@dataclass(frozen=True, slots=True)
class StreamOpened:
    stream: int
    headers: Mapping[str, str]
    fin: bool


@dataclass(frozen=True, slots=True)
class StreamReplied:
    stream: int
    headers: Mapping[str, str]
    fin: bool


@dataclass(frozen=True, slots=True)
class DataReceived:
    """A piece of data as it arrived, not a whole frame. ``fin`` with the last piece of the stream."""

    stream: int
    data: bytes
    fin: bool


@dataclass(frozen=True, slots=True)
class StreamReset:
    stream: int
    status: int


@dataclass(frozen=True, slots=True)
class WindowOpened:
    """More may be sent. ``stream`` 0 is the whole connection."""

    stream: int


@dataclass(frozen=True, slots=True)
class PongReceived:
    id: int


@dataclass(frozen=True, slots=True)
class GoneAway:
    last_stream: int


def _compressor() -> "zlib._Compress":
    # A window of 2 KiB holds the dictionary; the default one would cost 256 KiB for each connection.
    return zlib.compressobj(wbits=11, memLevel=4, zdict=DICTIONARY)


Event = StreamOpened | StreamReplied | DataReceived | StreamReset | WindowOpened | PongReceived | GoneAway


@dataclass(slots=True)
class _Stream:
    window: int  # what the peer lets us send
    unacknowledged: int = 0  # what the application consumed and the peer was not told
    sent_fin: bool = False
    received_fin: bool = False
    replied: bool = False


@dataclass(slots=True)
class Connection:
    """One end of a SPDY connection. After any call, :meth:`take` gives the bytes to send, in order."""

    client: bool
    _streams: dict[int, _Stream] = field(default_factory=dict)
    _next_id: int = 0
    _last_peer_id: int = 0
    _peer_keeps_windows: bool = False
    _initial_window: int = INITIAL_WINDOW
    _window: int = INITIAL_WINDOW
    _unacknowledged: int = 0
    _pending: bytes = b""
    _data_stream: int = 0
    _data_left: int = 0
    _data_fin: bool = False
    _gone: bool = False
    _out: list[bytes] = field(default_factory=list)
    _deflate: "zlib._Compress" = field(default_factory=_compressor)
    _inflate: "zlib._Decompress" = field(default_factory=lambda: zlib.decompressobj(zdict=DICTIONARY))

    # ------------------------------------------------------------------ calls

    def take(self) -> list[bytes]:
        """The bytes to send since the last call."""
        out, self._out = self._out, []
        return out

    def open(self, headers: Mapping[str, str], *, fin: bool = False) -> int:
        """Start a stream; its id. Send nothing on it before StreamReplied. Raises ProtocolError after a GOAWAY."""
        if self._gone:
            raise ProtocolError("the peer accepts no more streams")
        self._next_id = self._next_id + 2 if self._next_id else (1 if self.client else 2)
        self._streams[self._next_id] = _Stream(self._initial_window, sent_fin=fin)
        body = _HEAD.pack(self._next_id, 0) + b"\0\0" + self._pack(headers)
        self._control(SYN_STREAM, FLAG_FIN if fin else 0, body)
        return self._next_id

    def reply(self, stream: int, headers: Mapping[str, str] | None = None, *, fin: bool = False) -> None:
        """Accept a stream that the peer opened. Must come before any data on it."""
        found = self._streams.get(stream)
        if found is None or found.replied:
            return
        found.replied = True
        self._control(SYN_REPLY, FLAG_FIN if fin else 0, _WORD.pack(stream) + self._pack(headers or {}))
        if fin:
            self._finish(stream, sent=True)

    def capacity(self, stream: int) -> int:
        """How many bytes may be sent on the stream now; 0 means wait for WindowOpened."""
        found = self._streams.get(stream)
        if found is None or found.sent_fin or not self._peer_keeps_windows:
            return UNLIMITED
        return max(0, min(found.window, self._window))

    def send(self, stream: int, data: bytes | memoryview, *, fin: bool = False) -> None:
        """Queue data, at most :meth:`capacity`. Raises ProtocolError on a stream that is closed for sending."""
        found = self._streams.get(stream)
        if found is None or found.sent_fin:
            raise ProtocolError(f"stream {stream} is closed for sending")
        found.window -= len(data)
        self._window -= len(data)
        for start in range(0, len(data), MAX_DATA) or (0,):
            piece = data[start : start + MAX_DATA]
            last = fin and start + MAX_DATA >= len(data)
            self._out.append(_HEAD.pack(stream, (FLAG_FIN if last else 0) << 24 | len(piece)))
            if piece:
                self._out.append(bytes(piece))
        if fin:
            self._finish(stream, sent=True)

    def consumed(self, stream: int, count: int) -> None:
        """The application has taken ``count`` bytes: let the peer send as many again, if it keeps windows."""
        if not self._peer_keeps_windows:
            return
        self._unacknowledged += count
        if self._unacknowledged >= INITIAL_WINDOW // 2:
            self._control(WINDOW_UPDATE, 0, _HEAD.pack(0, self._unacknowledged))
            self._unacknowledged = 0
        found = self._streams.get(stream)
        if found is None or found.received_fin:
            return
        found.unacknowledged += count
        if found.unacknowledged >= INITIAL_WINDOW // 2:
            self._control(WINDOW_UPDATE, 0, _HEAD.pack(stream, found.unacknowledged))
            found.unacknowledged = 0

    def reset(self, stream: int, status: int = CANCEL) -> None:
        """Drop a stream in both directions; the peer is told once."""
        if self._streams.pop(stream, None) is not None:
            self._control(RST_STREAM, 0, _HEAD.pack(stream, status))

    def ping(self, number: int) -> None:
        """Ask for a PongReceived. ``number`` is odd from a client, even from a server."""
        self._control(PING, 0, _WORD.pack(number))

    def go_away(self, status: int = 0) -> None:
        self._control(GOAWAY, 0, _HEAD.pack(self._last_peer_id, status))

    def is_open(self, stream: int) -> bool:
        """Whether anything may still come or go on the stream."""
        return stream in self._streams

    # ------------------------------------------------------------------ bytes in

    def receive(self, data: bytes) -> list[Event]:
        """Feed what the transport read, split anywhere. Raises ProtocolError; GOAWAY is then in :meth:`take`."""
        events: list[Event] = []
        if self._pending:
            data = self._pending + data
        position, end = 0, len(data)
        while position < end or self._data_left:
            if self._data_left:
                taken = min(self._data_left, end - position)
                if taken == 0:
                    break
                self._data_left -= taken
                self._on_data(data[position : position + taken], events)
                position += taken
                continue
            if end - position < 8:
                break
            first, second = _HEAD.unpack_from(data, position)
            length = second & 0xFFFFFF
            if not first & 0x80000000:
                position += 8
                self._data_stream, self._data_left, self._data_fin = first, length, bool(second >> 24 & FLAG_FIN)
                if not length:
                    self._on_data(b"", events)
                continue
            if length > MAX_CONTROL:
                raise self._broken(f"control frame of {length} bytes")
            if end - position - 8 < length:
                break
            body = data[position + 8 : position + 8 + length]
            position += 8 + length
            self._on_control(first, second >> 24, body, events)
        self._pending = data[position:]
        return events

    def _on_data(self, data: bytes, events: list[Event]) -> None:
        stream, fin = self._data_stream, self._data_fin and not self._data_left
        found = self._streams.get(stream)
        if found is None or found.received_fin:
            # Data that crossed our reset on the way is no offence, but it used up the connection's window.
            self.consumed(0, len(data))
            if found is not None:
                self.reset(stream, STREAM_ALREADY_CLOSED)
                events.append(StreamReset(stream, STREAM_ALREADY_CLOSED))
            return
        if data or fin:
            events.append(DataReceived(stream, data, fin))
        if fin:
            self._finish(stream, received=True)

    def _on_control(self, first: int, flags: int, body: bytes, events: list[Event]) -> None:
        if first >> 16 & 0x7FFF != VERSION:
            raise self._broken(f"SPDY version {first >> 16 & 0x7FFF}")
        kind = first & 0xFFFF
        try:
            match kind:
                case 1:
                    self._on_open(flags, body, events)
                case 2:
                    self._on_reply(flags, body, events)
                case 3:
                    stream, status = _HEAD.unpack(body)
                    if self._streams.pop(stream, None) is not None:
                        events.append(StreamReset(stream, status))
                case 4:
                    self._on_settings(body, events)
                case 6:
                    self._on_ping(_WORD.unpack(body)[0], events)
                case 7:
                    self._gone = True
                    events.append(GoneAway(_HEAD.unpack(body)[0] & 0x7FFFFFFF))
                case 8:
                    stream = _WORD.unpack_from(body)[0]
                    self._unpack(body[4:])  # nothing of ours uses them, but the decompressor must see every block
                    if flags & FLAG_FIN and stream in self._streams:
                        events.append(DataReceived(stream, b"", True))
                        self._finish(stream, received=True)
                case 9:
                    stream, delta = _HEAD.unpack(body)
                    self._on_window(stream, delta, events)
        except struct.error:
            raise self._broken(f"frame type {kind} of {len(body)} bytes") from None

    def _on_open(self, flags: int, body: bytes, events: list[Event]) -> None:
        stream = _WORD.unpack_from(body)[0] & 0x7FFFFFFF
        headers = self._unpack(body[10:])
        if stream % 2 != (0 if self.client else 1) or stream <= self._last_peer_id:
            raise self._broken(f"stream id {stream}")
        self._last_peer_id = stream
        if len(self._streams) >= MAX_STREAMS:
            self._control(RST_STREAM, 0, _HEAD.pack(stream, REFUSED_STREAM))
            return
        fin = bool(flags & FLAG_FIN)
        self._streams[stream] = _Stream(
            self._initial_window, sent_fin=bool(flags & FLAG_UNIDIRECTIONAL), received_fin=fin, replied=False
        )
        events.append(StreamOpened(stream, headers, fin))

    def _on_reply(self, flags: int, body: bytes, events: list[Event]) -> None:
        stream = _WORD.unpack_from(body)[0] & 0x7FFFFFFF
        headers = self._unpack(body[4:])
        found = self._streams.get(stream)
        if found is None:
            return  # reset by us meanwhile
        if found.replied:
            self.reset(stream, STREAM_IN_USE)
            events.append(StreamReset(stream, STREAM_IN_USE))
            return
        found.replied = True
        fin = bool(flags & FLAG_FIN)
        events.append(StreamReplied(stream, headers, fin))
        if fin:
            self._finish(stream, received=True)

    def _on_settings(self, body: bytes, events: list[Event]) -> None:
        self._peer_keeps_windows = True
        (count,) = _WORD.unpack_from(body)
        for index in range(count):
            key, value = _HEAD.unpack_from(body, 4 + 8 * index)
            if key & 0xFFFFFF == _SETTINGS_INITIAL_WINDOW and value < UNLIMITED:
                for stream in self._streams.values():
                    stream.window += value - self._initial_window
                self._initial_window = value
                events.extend(WindowOpened(stream) for stream in self._streams)

    def _on_ping(self, number: int, events: list[Event]) -> None:
        ours = number % 2 == (1 if self.client else 0)
        if ours:
            events.append(PongReceived(number))
        else:
            self._control(PING, 0, _WORD.pack(number))

    def _on_window(self, stream: int, delta: int, events: list[Event]) -> None:
        self._peer_keeps_windows = True
        if stream == 0:
            self._window += delta
        elif found := self._streams.get(stream):
            found.window += delta
        else:
            return
        events.append(WindowOpened(stream))

    # ------------------------------------------------------------------ helpers

    def _finish(self, stream: int, *, sent: bool = False, received: bool = False) -> None:
        found = self._streams[stream]
        found.sent_fin |= sent
        found.received_fin |= received
        if found.sent_fin and found.received_fin:
            del self._streams[stream]

    def _control(self, kind: int, flags: int, body: bytes) -> None:
        self._out.append(_HEAD.pack(0x80000000 | VERSION << 16 | kind, flags << 24 | len(body)) + body)

    def _broken(self, what: str) -> ProtocolError:
        self.go_away(PROTOCOL_ERROR)
        return ProtocolError(f"bad SPDY/3.1 from the peer: {what}")

    def _pack(self, headers: Mapping[str, str]) -> bytes:
        """A compressed header block; names go in lower case, as the protocol demands."""
        parts = [_WORD.pack(len(headers))]
        for name, value in headers.items():
            for text in (name.lower().encode(), value.encode()):
                parts += (_WORD.pack(len(text)), text)
        return self._deflate.compress(b"".join(parts)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)

    def _unpack(self, block: bytes) -> dict[str, str]:
        try:
            plain = self._inflate.decompress(block, MAX_HEADERS)
        except zlib.error as error:
            raise self._broken(f"header block: {error}") from None
        if self._inflate.unconsumed_tail:
            raise self._broken(f"header block beyond {MAX_HEADERS} bytes")
        (count,) = _WORD.unpack_from(plain)
        headers: dict[str, str] = {}
        position = 4
        for _ in range(count):
            texts = []
            for _ in range(2):
                (length,) = _WORD.unpack_from(plain, position)
                texts.append(plain[position + 4 : position + 4 + length].decode("utf-8", "replace"))
                position += 4 + length
            headers[texts[0].lower()] = texts[1]
        if position > len(plain):
            raise self._broken("header block ends early")
        return headers

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from component.streams import spdy
from component.streams.spdy import Connection, DataReceived, StreamOpened, StreamReplied, StreamReset, WindowOpened

SETTINGS = bytes.fromhex("800300040000000400000000")  # without entries: it only shows that its sender keeps windows


def pair() -> tuple[Connection, Connection]:
    return Connection(client=True), Connection(client=False)


def carry(source: Connection, sink: Connection, cuts: Sequence[int] = ()) -> list[spdy.Event]:
    """Move all bytes, split at the given places, and return the events with neighbouring data joined."""
    data = b"".join(source.take())
    events: list[spdy.Event] = []
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, end in itertools.pairwise(places):
        events += sink.receive(data[start:end])
    return join(events)


def join(events: Sequence[spdy.Event]) -> list[spdy.Event]:
    joined: list[spdy.Event] = []
    for event in events:
        last = joined[-1] if joined else None
        if isinstance(event, DataReceived) and isinstance(last, DataReceived) and last.stream == event.stream:
            joined[-1] = DataReceived(event.stream, last.data + event.data, event.fin)
        else:
            joined.append(event)
    return joined


def opened(client: Connection, server: Connection) -> int:
    stream = client.open({"streamType": "stdin"})
    carry(client, server)
    server.reply(stream)
    carry(server, client)
    return stream


def test_header_block_is_what_other_implementations_send() -> None:
    """The zlib stream must name the dictionary of SPDY/3: its checksum stands in the first block."""
    client, _ = pair()
    client.open({})
    frame = b"".join(client.take())
    assert frame[:4] == b"\x80\x03\x00\x01"
    assert frame[8:18] == b"\0\0\0\1\0\0\0\0\0\0"
    assert frame[20:24] == bytes.fromhex("e3c6a7c2")


def test_streams_open_with_headers_and_are_replied_to() -> None:
    client, server = pair()
    first, second = client.open({"streamType": "error"}), client.open({"streamType": "stdin", "port": "80"}, fin=True)
    assert carry(client, server) == [
        StreamOpened(first, {"streamtype": "error"}, False),
        StreamOpened(second, {"streamtype": "stdin", "port": "80"}, True),
    ]
    server.reply(first)
    server.reply(second, {"x": "y"}, fin=True)
    assert carry(server, client) == [StreamReplied(first, {}, False), StreamReplied(second, {"x": "y"}, True)]
    assert client.is_open(first)
    assert not client.is_open(second)


@given(
    data=st.binary(max_size=200_000),
    cuts=st.lists(st.integers(min_value=0), max_size=20),
    headers=st.dictionaries(
        st.text(st.characters(codec="ascii", categories=["Ll"]), min_size=1), st.text(max_size=50), max_size=5
    ),
)
def test_any_split_gives_the_same_events(data: bytes, cuts: list[int], headers: dict[str, str]) -> None:
    client, server = pair()
    stream = client.open(headers)
    client.send(stream, data, fin=True)
    client.ping(1)
    client.go_away()
    events = carry(client, server, cuts)
    assert events[0] == StreamOpened(stream, headers, False)
    assert events[1] == DataReceived(stream, data, True)
    assert isinstance(events[2], spdy.GoneAway)
    assert carry(server, client)[-1] == spdy.PongReceived(1)


@given(st.binary(max_size=400))
def test_garbage_never_raises_anything_else(data: bytes) -> None:
    _, server = pair()
    try:
        server.receive(data)
    except spdy.ProtocolError:
        assert server.take()


@given(st.binary(max_size=60), st.sampled_from([1, 2, 3, 4, 6, 7, 8, 9]))
def test_garbage_bodies_never_raise_anything_else(body: bytes, kind: int) -> None:
    _, server = pair()
    head = (0x80030000 | kind).to_bytes(4, "big") + len(body).to_bytes(4, "big")
    try:
        server.receive(head + body)
    except spdy.ProtocolError:
        assert server.take()


def test_half_close_keeps_the_other_direction() -> None:
    client, server = pair()
    stream = opened(client, server)
    client.send(stream, b"", fin=True)
    assert carry(client, server) == [DataReceived(stream, b"", True)]
    server.send(stream, b"answer", fin=True)
    assert carry(server, client) == [DataReceived(stream, b"answer", True)]
    assert not client.is_open(stream)
    assert not server.is_open(stream)


def test_windows_do_not_bind_until_the_peer_keeps_them() -> None:
    client, server = pair()
    stream = opened(client, server)
    assert client.capacity(stream) == spdy.UNLIMITED
    server.consumed(stream, 50_000)
    assert carry(server, client) == []
    for end in (client, server):
        end.receive(SETTINGS)
    client.send(stream, b"x" * 50_000)
    carry(client, server)
    server.consumed(stream, 50_000)
    assert carry(server, client) == [WindowOpened(0), WindowOpened(stream)]
    assert client.capacity(stream) == spdy.INITIAL_WINDOW
    client.send(stream, b"x" * spdy.INITIAL_WINDOW)
    assert client.capacity(stream) == 0


def test_reset_is_told_and_late_data_is_dropped() -> None:
    client, server = pair()
    stream = opened(client, server)
    client.send(stream, b"late")
    late = b"".join(client.take())
    server.reset(stream)
    assert server.receive(late) == []
    assert carry(server, client) == [StreamReset(stream, spdy.CANCEL)]
    with pytest.raises(spdy.ProtocolError):
        client.send(stream, b"x")


def test_data_after_fin_resets_the_stream() -> None:
    client, server = pair()
    stream = opened(client, server)
    client.send(stream, b"a", fin=True)
    carry(client, server)
    events = server.receive(stream.to_bytes(4, "big") + b"\0\0\0\1b")
    assert events == [StreamReset(stream, spdy.STREAM_ALREADY_CLOSED)]


@pytest.mark.parametrize("frame", ["8002000100000000", "80030001000ffffff" + "0", "80030003000000010a"])
def test_broken_frames_end_the_connection(frame: str) -> None:
    _, server = pair()
    with pytest.raises(spdy.ProtocolError, match=r"bad SPDY/3\.1"):
        server.receive(bytes.fromhex(frame))
    assert server.take()[-1][:4] == b"\x80\x03\x00\x07"


def test_a_bomb_of_headers_is_refused() -> None:
    client, server = pair()
    client.open({"a": "x" * 10_000_000})
    with pytest.raises(spdy.ProtocolError, match="header block"):
        server.receive(b"".join(client.take()))


def test_too_many_streams_are_refused_one_by_one() -> None:
    client, server = pair()
    for _ in range(spdy.MAX_STREAMS + 1):
        last = client.open({})
    carry(client, server)
    assert StreamReset(last, spdy.REFUSED_STREAM) in carry(server, client)

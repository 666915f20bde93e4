import base64
import contextlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from component.streams import websocket
from component.streams.websocket import BINARY, CLOSE, PING, TEXT, Message, Parser, WebSocketError


def encoded(*messages: tuple[int, bytes], masked: bool = True) -> bytes:
    return b"".join(b"".join(websocket.frame(opcode, (data,), masked=masked)) for opcode, data in messages)


def test_accept_value_of_the_rfc() -> None:
    assert websocket.accept_value("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    assert len(base64.b64decode(websocket.new_key())) == 16


def test_masked_hello_of_the_rfc() -> None:
    assert Parser(client=False).receive(bytes.fromhex("818537fa213d7f9f4d5158")) == [Message(TEXT, b"Hello")]


def test_fragments_of_the_rfc_with_a_ping_between() -> None:
    frames = bytes.fromhex("010348656c") + bytes.fromhex("8900") + bytes.fromhex("80026c6f")
    assert Parser(client=True).receive(frames) == [Message(PING, b""), Message(TEXT, b"Hello")]


@given(
    messages=st.lists(st.tuples(st.sampled_from([TEXT, BINARY]), st.binary(max_size=70_000)), max_size=3),
    cuts=st.lists(st.integers(min_value=0), max_size=10),
    masked=st.booleans(),
)
def test_any_split_gives_the_same_messages(messages: list[tuple[int, bytes]], cuts: list[int], masked: bool) -> None:
    data = encoded(*messages, masked=masked)
    parser = Parser(client=not masked)
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    received = [message for start, end in itertools.pairwise(places) for message in parser.receive(data[start:end])]
    assert received == [Message(opcode, data) for opcode, data in messages]


@given(st.binary(max_size=300), st.booleans())
def test_garbage_never_raises_anything_else(data: bytes, client: bool) -> None:
    with contextlib.suppress(WebSocketError):
        Parser(client=client).receive(data)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        pytest.param(encoded((BINARY, b"x"), masked=False), websocket.PROTOCOL_ERROR, id="unmasked"),
        pytest.param(b"\xc2\x80\0\0\0\0", websocket.PROTOCOL_ERROR, id="reserved bit"),
        pytest.param(b"\x80\x80\0\0\0\0", websocket.PROTOCOL_ERROR, id="continuation of nothing"),
        pytest.param(b"\x08\x80\0\0\0\0", websocket.PROTOCOL_ERROR, id="fragmented close"),
        pytest.param(b"\x82\xff" + (1 << 40).to_bytes(8, "big"), websocket.TOO_BIG, id="too big"),
    ],
)
def test_violations_have_a_code(data: bytes, code: int) -> None:
    with pytest.raises(WebSocketError) as caught:
        Parser(client=False).receive(data)
    assert caught.value.code == code


def test_close_frame_carries_code_and_reason() -> None:
    payload = websocket.close_payload(1000, "bye")
    assert Parser(client=False).receive(encoded((CLOSE, payload))) == [Message(CLOSE, b"\x03\xe8bye")]


def test_masking_twice_gives_the_data_back() -> None:
    key = bytes.fromhex("37fa213d")
    for size in range(9):
        data = bytes(range(size))
        assert websocket.mask(websocket.mask(data, key), key) == data

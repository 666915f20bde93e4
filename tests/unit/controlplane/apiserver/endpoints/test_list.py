"""A list as it goes over the wire: complete, and never whole in memory."""

import json

import pytest

from controlplane.apiserver.endpoints.list import Items
from controlplane.apiserver.wire.pieces import PIECE, Pieces, sliced


@pytest.mark.parametrize(("count", "size"), [(0, 0), (1, 10), (1, PIECE * 3), (7, PIECE), (1000, 3000), (100_000, 20)])
def test_pieces_are_the_list(count: int, size: int) -> None:
    items = [json.dumps({"n": number, "pad": "x" * size}).encode() for number in range(count)]
    made = Items(items)
    body = bytes(Pieces(b'{"items":[', made, made.length))
    assert len(body) == len(b'{"items":[') + made.length
    assert body == b'{"items":[' + b",".join(items) + b"]}"
    assert [len(each["pad"]) for each in json.loads(body)["items"]] == [size] * count
    largest = max((*map(len, items), PIECE))
    assert all(len(piece) <= largest + PIECE for piece in made)


def test_ready_pieces_are_used_again() -> None:
    items = Items([b"{}"] * 10)
    items.pieces = list(items)
    assert next(iter(items)) is next(iter(items))


def test_a_ready_body_is_not_copied() -> None:
    body = bytes(range(256)) * 2000
    views = list(sliced(body))
    assert b"".join(views) == body
    assert all(view.obj is body for view in views)

"""Bodies too large to hold whole: their length is known, their bytes are made while they are sent, a piece at a time.

Made by ``endpoints.list``; written by ``reply``.
"""

from collections.abc import Iterable, Iterator

PIECE = 128 * 1024  # bytes given to TLS at once: larger ones leave the processor's cache on their way, smaller ones cost calls


class Pieces:
    """``lead``, then ``rest``, which is gone through for each reading and gives pieces that add up to ``rest_length`` bytes."""

    __slots__ = ("_length", "lead", "rest")

    def __init__(self, lead: bytes, rest: Iterable[bytes], rest_length: int) -> None:
        self.lead, self.rest, self._length = lead, rest, len(lead) + rest_length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[bytes]:
        yield self.lead
        yield from self.rest

    def __bytes__(self) -> bytes:
        return b"".join(self)


def sliced(body: bytes) -> Iterator[memoryview]:
    """Views of a ready body."""
    view = memoryview(body)
    for start in range(0, len(body), PIECE):
        yield view[start : start + PIECE]

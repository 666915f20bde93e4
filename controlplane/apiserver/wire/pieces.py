"""Bodies too large to hold whole: their bytes are made while they are sent, a piece at a time.

Made by ``endpoints.list``; written by ``reply``. Of :class:`Pieces` the length is known; a :class:`Stream` goes out in chunks.
"""

from collections.abc import AsyncIterator, Iterable, Iterator

from isal import isal_zlib

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


class Stream:
    """``lead``, then ``rest``, which is gone through once. Nobody knows how long it will be."""

    __slots__ = ("lead", "rest")

    def __init__(self, lead: bytes, rest: AsyncIterator[bytes]) -> None:
        self.lead, self.rest = lead, rest

    async def whole(self) -> bytes:
        """All of it, for those who cannot take it in pieces."""
        return b"".join([self.lead, *[piece async for piece in self.rest]])


class Squeezed:
    """Bytes that must all be made before the first is sent, because their length stands before them: held compressed.

    ISA-L makes a tenth of a list of similar objects, at a thousandth of what it costs to encode them.
    """

    __slots__ = ("_held", "length")

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self.length = 0

    def add(self, piece: bytes) -> None:
        self._held.append(isal_zlib.compress(piece, 1))
        self.length += len(piece)

    def __iter__(self) -> Iterator[bytes]:
        return map(isal_zlib.decompress, self._held)


def sliced(body: bytes) -> Iterator[memoryview]:
    """Views of a ready body."""
    view = memoryview(body)
    for start in range(0, len(body), PIECE):
        yield view[start : start + PIECE]

"""Answers of servers that this one asks: webhooks, extension servers, issuers of identities."""

import aiohttp


class TooLargeError(ValueError):
    """The answer is longer than what is read of such."""


async def read(answer: aiohttp.ClientResponse, limit: int) -> bytes:
    """The whole body, of at most ``limit`` bytes as they are unpacked. Raises TooLargeError, and what aiohttp raises."""
    pieces, size = [], 0
    async for piece in answer.content.iter_any():
        size += len(piece)
        if size > limit:
            raise TooLargeError(f"the answer is larger than {limit} bytes")
        pieces.append(piece)
    return b"".join(pieces)

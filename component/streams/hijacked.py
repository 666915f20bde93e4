"""The aiohttp response for a connection that was taken away with ``upgrade.hijack``: it writes nothing. Apart from
``upgrade.py`` so that a client of streams needs no aiohttp."""

from typing import Any

from aiohttp import web


class Hijacked(web.StreamResponse):
    """Return this from the handler when the stream is over. Status 101 for access logs and audit."""

    def __init__(self) -> None:
        super().__init__(status=101)
        self._keep_alive = False

    async def prepare(self, request: web.BaseRequest) -> Any:
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        return None

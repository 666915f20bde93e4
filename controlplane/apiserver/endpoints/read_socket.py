"""Answers that only flow to the client, over a WebSocket: logs and watches, for clients (browsers above all) that ask so.

``connect_log`` and ``watch`` come here when a GET asks to switch. The protocols are upstream's: plain binary messages, or
base64 in text messages for clients that cannot take binary.
"""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator

from apimachinery import errors
from component.streams import upgrade
from component.streams.hijacked import Hijacked
from component.streams.wsocket import WebSocket
from controlplane.apiserver.wire.call import Call

BINARY, BASE64 = "binary.k8s.io", "base64.binary.k8s.io"
_PROTOCOL_HEADER = "Sec-WebSocket-Protocol"


def asked(call: Call) -> bool:
    return upgrade.wants(call.headers) == "websocket"


def protocol_of(call: Call) -> str:
    """What the client offered and we speak, its first choice first. Raises a 403, as a refused handshake of upstream's is."""
    offered = upgrade.offered(call.headers.items(), _PROTOCOL_HEADER)
    chosen = next((name for name in offered if name in (BINARY, BASE64)), "")
    if offered and not chosen:
        text = f"unable to upgrade: the client offers {', '.join(offered)}, this server {BINARY} and {BASE64}"
        raise errors.StatusError(errors.make_status(403, "Forbidden", text))
    return chosen


def key_of(call: Call) -> str:
    """Raises a 400 for what is no handshake."""
    key = call.headers.get("Sec-WebSocket-Key", "")
    if not key or call.headers.get("Sec-WebSocket-Version") != "13":
        raise errors.bad_request("unable to upgrade: a WebSocket of version 13 with a key is required")
    return key


async def send(call: Call, chunks: AsyncIterator[bytes], protocol: str, *, text: bool = False) -> Hijacked:
    """Every chunk as one message, until there are no more or the client has gone. What the client sends is thrown away."""
    socket = upgrade.accept_websocket(call.http, key_of(call), protocol)
    listener = asyncio.ensure_future(_listen(socket))
    sender = asyncio.ensure_future(_send(socket, chunks, text=text, encoded=protocol == BASE64))
    try:
        await asyncio.wait((listener, sender), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (listener, sender):
            task.cancel()
        await asyncio.gather(listener, sender, return_exceptions=True)
        socket.close()
    return Hijacked()


async def _listen(socket: WebSocket) -> None:
    while await socket.receive() is not None:
        continue


async def _send(socket: WebSocket, chunks: AsyncIterator[bytes], *, text: bool, encoded: bool) -> None:
    with contextlib.suppress(ConnectionError):
        async for chunk in chunks:
            await socket.write(base64.b64encode(chunk) if encoded else chunk, text=text or encoded)

"""A WebSocket on a transport: whole messages in and out, pings answered, back-pressure both ways."""

import asyncio
from collections import deque
from collections.abc import Callable

from component.streams import websocket
from component.streams.duplex import HIGH_WATER, FlowProtocol
from component.streams.websocket import BINARY, CLOSE, PING, PONG, TEXT, Message, WebSocketError


class WebSocket(FlowProtocol):
    """One end of an open WebSocket; the handshake is over. One reader at a time, any number of writers."""

    def __init__(self, *, client: bool = False, on_lost: Callable[[Exception | None], object] | None = None) -> None:
        super().__init__(on_lost)
        self._client = client
        self._parser = websocket.Parser(client)
        self._messages: deque[Message] = deque()
        self._held = 0
        self._arrived = asyncio.Event()
        self._closing = False
        self.close_code = 0  # what the peer said on closing; 0 when it said nothing

    async def receive(self) -> bytes | None:
        """The next message; None when the peer has closed, or broke the protocol."""
        while not self._messages:
            if self.lost or self._closing:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        message = self._messages.popleft()
        self._held -= len(message.data)
        if self._held < HIGH_WATER // 2:
            self.resume_reading()
        return message.data

    async def write(self, *parts: bytes, text: bool = False) -> None:
        """Send one message made of ``parts`` and wait for room. Raises ConnectionResetError."""
        if self._closing:
            raise ConnectionResetError("the WebSocket is closing")
        self.send(websocket.frame(TEXT if text else BINARY, parts, masked=self._client))
        await self.drain()

    def close(self, code: int = websocket.NORMAL, reason: str = "") -> None:
        """Send what is queued and a close frame, then close the connection. Idempotent."""
        if not self._closing:
            self._closing = True
            self.send(websocket.frame(CLOSE, (websocket.close_payload(code, reason),), masked=self._client))
        self._arrived.set()
        super().close()

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        try:
            messages = self._parser.receive(data)
        except WebSocketError as error:
            self.close(error.code, str(error))
            return
        for message in messages:
            self._handle(message)
        if self._held > HIGH_WATER:
            self.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._arrived.set()

    def _handle(self, message: Message) -> None:
        if message.opcode == PING:
            self.send(websocket.frame(PONG, (message.data,), masked=self._client))
        elif message.opcode == CLOSE:
            self.close_code = int.from_bytes(message.data[:2], "big")
            self.close(self.close_code or websocket.NORMAL)
        elif message.opcode != PONG:
            self._messages.append(message)
            self._held += len(message.data)
            self._arrived.set()

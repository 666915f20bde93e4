"""The streams of a remote command, whatever carries them: stdin, stdout, stderr, the final status and terminal sizes.

Towards clients they are numbered channels of one WebSocket (:class:`WebSocketChannels`); towards the runtime they are SPDY
streams, each named by a header (:func:`open_streams`). ``relay.py`` joins the two.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

import orjson

from component.streams.session import Session, Stream
from component.streams.wsocket import WebSocket


class Role(IntEnum):
    """The channel numbers of ``channel.k8s.io``."""

    STDIN = 0
    STDOUT = 1
    STDERR = 2
    ERROR = 3
    RESIZE = 4


CLOSE_CHANNEL = 255  # v5: "[255, n]" half-closes channel n

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
# Best first; what upstream's server offers. "" is a client that names no protocol at all and gets the oldest.
WEBSOCKET_PROTOCOLS = (
    V5,
    V4,
    "v4.base64.channel.k8s.io",
    "v3.channel.k8s.io",
    "v2.channel.k8s.io",
    "channel.k8s.io",
    "base64.channel.k8s.io",
    "",
)
SPDY_PROTOCOLS = (V4, "v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")
PORT_FORWARD = "portforward.k8s.io"
PORT_FORWARD_TUNNEL = "SPDY/3.1+portforward.k8s.io"


def choose(offered: Sequence[str], served: Sequence[str]) -> str | None:
    """The first protocol of the client that we serve. An empty offer is "" if we serve that; None refuses."""
    if not offered:
        return "" if "" in served else None
    return next((protocol for protocol in offered if protocol in served), None)


@dataclass(frozen=True, slots=True)
class Options:
    """Which streams a command was asked to have. A terminal merges stderr into stdout."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False

    @property
    def roles(self) -> tuple[Role, ...]:
        """In the order in which upstream's clients open them."""
        wanted = {
            Role.ERROR: True,
            Role.STDIN: self.stdin,
            Role.STDOUT: self.stdout,
            Role.STDERR: self.stderr and not self.tty,
            Role.RESIZE: self.tty,
        }
        return tuple(role for role, given in wanted.items() if given)


class Channel(Protocol):
    """One stream: read until ``b""``, write with back-pressure, half-close."""

    async def read(self) -> bytes: ...

    async def write(self, data: bytes) -> None: ...

    def close_write(self) -> None: ...


async def open_streams(session: Session, options: Options) -> dict[Role, Stream]:
    """Open the SPDY streams of a command as its client. Raises StreamClosedError."""
    return {role: await session.open({"streamType": role.name.lower()}) for role in options.roles}


class WebSocketChannels:
    """The server's end of ``*.channel.k8s.io``: frames start with a channel number, a byte or (base64) a digit."""

    def __init__(self, socket: WebSocket, protocol: str) -> None:
        self.socket = socket
        self._base64 = "base64" in protocol
        self._closes = protocol == V5
        self.json_status = protocol in (V5, V4, "v4.base64.channel.k8s.io")

    async def receive(self) -> tuple[int, bytes, bool] | None:
        """The next (channel, data, whether the channel ended); None when the client is gone."""
        while (message := await self.socket.receive()) is not None:
            if not message:
                continue
            number = message[0] - 48 if self._base64 else message[0]
            if number == CLOSE_CHANNEL and self._closes:
                if len(message) == 2:
                    return message[1], b"", True
                continue
            data = message[1:]
            if self._base64:
                try:
                    data = base64.b64decode(data, validate=True)
                except binascii.Error:
                    return None
            return number, data, False
        return None

    async def send(self, channel: int, data: bytes) -> None:
        """Raises ConnectionResetError when the client is gone."""
        if self._base64:
            await self.socket.write(bytes((48 + channel,)), base64.b64encode(data), text=True)
        else:
            await self.socket.write(bytes((channel,)), data)


def success() -> bytes:
    """The status of a command that ended with exit code 0."""
    return orjson.dumps({"metadata": {}, "status": "Success"})


def failure(message: str, *, code: int = 500, reason: str = "InternalError") -> bytes:
    """The status of a command that could not run."""
    return orjson.dumps({"metadata": {}, "status": "Failure", "message": message, "reason": reason, "code": code})


def exit_code(status: Mapping[str, Any]) -> int | None:
    """The exit code in a final status: 0 for success, None when the command did not run or says nothing about it."""
    if status.get("status") == "Success":
        return 0
    if status.get("reason") != "NonZeroExitCode":
        return None
    causes = (status.get("details") or {}).get("causes") or ()
    texts = [cause.get("message", "") for cause in causes if cause.get("reason") == "ExitCode"]
    return int(texts[0]) if texts and texts[0].isdigit() else None


def plain_status(status: bytes) -> bytes:
    """What protocols before v4 put on the error channel: the message, or nothing after success."""
    try:
        parsed = orjson.loads(status)
    except orjson.JSONDecodeError:
        return status
    if not isinstance(parsed, dict) or parsed.get("status") == "Success":
        return b""
    return str(parsed.get("message", "")).encode()

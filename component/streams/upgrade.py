"""From HTTP/1.1 to a stream: as a server take the connection from aiohttp, as a client ask another server to switch.

``controlplane.apiserver.endpoints.connect*``, ``node.kubelet.server.exec`` and ``cri.streaming`` call this. aiohttp upgrades
only to its own WebSocket, so the ``101`` is written here and the transport gets a new protocol.
"""

import asyncio
import ssl
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from component.streams import websocket
from component.streams.duplex import Duplex, FlowProtocol
from component.streams.wsocket import WebSocket

SPDY = "SPDY/3.1"
PROTOCOL_HEADER = "X-Stream-Protocol-Version"
BEARER_PREFIX = "base64url.bearer.authorization.k8s.io."  # by which browsers send a token, as a subprotocol
_MAX_HEAD = 64 * 1024
_MAX_BODY = 64 * 1024

Headers = Iterable[tuple[str, str]]


class UpgradeError(Exception):
    """The connection could not be made, or the answer is no HTTP."""


class _Request(Protocol):
    """What :func:`hijack` needs of an aiohttp request."""

    @property
    def transport(self) -> asyncio.Transport | None: ...

    @property
    def protocol(self) -> asyncio.Protocol: ...


def hijack(request: _Request, successor: FlowProtocol, headers: Headers) -> None:
    """Answer 101 with ``headers`` and give the connection to ``successor``.

    The aiohttp handler must go on until the stream is over and then return ``component.streams.hijacked.Hijacked()``.
    Raises ConnectionResetError when the client is gone already.
    """
    transport, former = request.transport, request.protocol
    if transport is None or transport.is_closing():
        raise ConnectionResetError("the client is gone")
    transport.write(_head("HTTP/1.1 101 Switching Protocols", headers))
    holder = FlowProtocol(former.connection_lost)  # aiohttp cleans up when it hears of the end
    holder.connection_made(transport)
    transport.resume_reading()  # aiohttp may have paused it
    holder.hand_over(successor)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer other than 101: relay it, and nothing else, to whoever asked."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes


@dataclass(frozen=True, slots=True)
class Upgraded:
    """The switch happened; ``duplex`` starts right behind the answer's head."""

    headers: Mapping[str, str]
    duplex: Duplex


async def connect(
    method: str,
    url: str,
    headers: Headers,
    *,
    ssl_context: ssl.SSLContext | None = None,
    server_name: str | None = None,
    timeout: float = 30.0,
) -> Upgraded | Refusal:
    """Send a request that asks for an upgrade, over a connection of its own. Redirects are not followed.

    ``headers`` must hold ``Connection``, ``Upgrade`` and what belongs to them; ``Host`` is added. ``server_name`` is who the
    certificate must be of, where the URL has only an address. Raises UpgradeError.
    """
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    duplex = Duplex()
    try:
        async with asyncio.timeout(timeout):
            await asyncio.get_running_loop().create_connection(
                lambda: duplex,
                parts.hostname or "",
                port,
                ssl=ssl_context if secure else None,
                server_hostname=server_name if secure and ssl_context is not None else None,
            )
            duplex.keep_alive()
            duplex.send((_head(f"{method} {target} HTTP/1.1", [("Host", parts.netloc), *headers]),))
            return await _answer(duplex)
    except TimeoutError:
        duplex.abort()
        raise UpgradeError(f"no answer from {parts.netloc} within {timeout:g} s") from None
    except OSError as error:
        duplex.abort()
        raise UpgradeError(f"cannot connect to {parts.netloc}: {error}") from error
    except BaseException:
        duplex.abort()
        raise


async def _answer(duplex: Duplex) -> Upgraded | Refusal:
    data = b""
    while (end := data.find(b"\r\n\r\n")) < 0:
        chunk = await duplex.read()
        if not chunk or len(data) > _MAX_HEAD:
            raise UpgradeError("the connection ended before an answer came" if not chunk else "the answer's head is too long")
        data += chunk
    status, headers = _parse_head(data[:end])
    rest = data[end + 4 :]
    if status == 101:
        duplex.unread(rest)
        return Upgraded(headers, duplex)
    try:
        return Refusal(status, headers, await _body(duplex, headers, rest))
    finally:
        duplex.abort()


def _parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    parts = first.split(" ", 2)
    if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or not parts[1].isdigit():
        raise UpgradeError(f"no HTTP answer: {first[:80]!r}")
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return int(parts[1]), headers


async def _body(duplex: Duplex, headers: Mapping[str, str], data: bytes) -> bytes:
    """The body of a refusal, cut at a limit: by length, by chunks, or until the end of the connection."""
    chunked = "chunked" in headers.get("transfer-encoding", "").lower()
    length = headers.get("content-length", "")
    wanted = min(int(length), _MAX_BODY) if length.isdigit() and not chunked else _MAX_BODY
    while len(data) < wanted and not (chunked and b"\r\n0\r\n" in b"\r\n" + data):
        chunk = await duplex.read()
        if not chunk:
            break
        data += chunk
    return _unchunk(data) if chunked else data[:wanted]


def _unchunk(data: bytes) -> bytes:
    parts = []
    while data:
        size, _, data = data.partition(b"\r\n")
        try:
            count = int(size.split(b";")[0], 16)
        except ValueError:
            break
        if count == 0:
            break
        parts.append(data[:count])
        data = data[count + 2 :]
    return b"".join(parts)


def _head(first: str, headers: Headers) -> bytes:
    lines = [first]
    for name, value in headers:
        if "\r" in value or "\n" in value or "\r" in name or "\n" in name:
            raise ValueError(f"line break in header {name!r}")
        lines.append(f"{name}: {value}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")


def spdy_headers(protocols: Sequence[str] = ()) -> list[tuple[str, str]]:
    """The headers of a client that wants SPDY/3.1, with the stream protocols it can speak, best first."""
    return [
        ("Connection", "Upgrade"),
        ("Upgrade", SPDY),
        *((PROTOCOL_HEADER, protocol) for protocol in protocols),
        ("Content-Length", "0"),
    ]


# ---------------------------------------------------------------------- as a server


def wants(headers: Mapping[str, str]) -> str:
    """Which protocol a request asks to switch to: "spdy", "websocket", or "" for none that we know."""
    if "upgrade" not in headers.get("Connection", "").lower():
        return ""
    protocol = headers.get("Upgrade", "").lower()
    return {"spdy/3.1": "spdy", "websocket": "websocket"}.get(protocol, "")


def offered(headers: Iterable[tuple[str, str]], name: str) -> list[str]:
    """All protocols of a client in its order, whether in one header or in several."""
    values = [value for key, value in headers if key.lower() == name.lower()]
    return [item.strip() for value in values for item in value.split(",") if item.strip()]


def without_tokens(offer: str) -> str:
    """A list of subprotocols without the one that is a bearer token: that is for the API server alone."""
    return ", ".join(item for item in map(str.strip, offer.split(",")) if not item.startswith(BEARER_PREFIX))


def accept_websocket(request: _Request, key: str, protocol: str) -> WebSocket:
    """Complete a WebSocket handshake as the server and take the connection. Raises ConnectionResetError."""
    socket = WebSocket()
    headers = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Accept", websocket.accept_value(key)),
    ]
    if protocol:
        headers.append(("Sec-WebSocket-Protocol", protocol))
    hijack(request, socket, headers)
    return socket

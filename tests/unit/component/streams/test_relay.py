"""Both ends real: aiohttp's WebSocket client in front, SPDY behind, our relay between them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import orjson
import pytest
from aiohttp import web

from component import serving
from component.streams import channels, relay, upgrade, websocket
from component.streams.channels import Options, WebSocketChannels
from component.streams.hijacked import Hijacked
from component.streams.session import Session
from component.streams.wsocket import WebSocket
from tests.support.streaming import running_streaming_server


async def backend(url: str) -> Session:
    answer = await upgrade.connect("POST", url, upgrade.spdy_headers([channels.V4]))
    assert isinstance(answer, upgrade.Upgraded)
    session = Session(client=True)
    answer.duplex.switch(session)
    return session


def open_socket(request: web.BaseRequest) -> tuple[WebSocket, str]:
    protocol = request.headers.get("Sec-WebSocket-Protocol", "")
    socket = WebSocket()
    headers = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Accept", websocket.accept_value(request.headers["Sec-WebSocket-Key"])),
        *([("Sec-WebSocket-Protocol", protocol)] if protocol else []),
    ]
    upgrade.hijack(request, socket, headers)
    return socket, protocol


@asynccontextmanager
async def relaying(runtime: str, options: Options) -> AsyncIterator[str]:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if "portforward" in request.path:
            socket, protocol = open_socket(request)
            if "SPDY" in protocol:
                answer = await upgrade.connect("POST", f"{runtime}/portforward", upgrade.spdy_headers([]))
                assert isinstance(answer, upgrade.Upgraded)
                await relay.tunnel(socket, answer.duplex)
            else:
                session = await backend(f"{runtime}/portforward")
                await relay.port_forward(WebSocketChannels(socket, protocol), session, [80, 443])
        else:
            names = ",".join(role.name.lower() for role in options.roles)
            session = await backend(f"{runtime}{request.path}/{names}")
            socket, protocol = open_socket(request)
            await relay.command(WebSocketChannels(socket, protocol), session, options)
        return Hijacked()

    async with serving.listening(handle, "127.0.0.1", 0, drain_seconds=1) as address:
        yield address.url


@asynccontextmanager
async def client(path: str, protocol: str, options: Options) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    async with (
        running_streaming_server() as runtime,
        relaying(runtime, options) as url,
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{url}{path}", protocols=(protocol,) if protocol else ()) as socket,
    ):
        yield socket


async def everything(socket: aiohttp.ClientWebSocketResponse) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    async for message in socket:
        found[message.data[0]] = found.get(message.data[0], b"") + message.data[1:]
    return found


IN_OUT = Options(stdin=True, stdout=True)


async def test_v5_closes_stdin_and_gets_the_status() -> None:
    async with client("/exec/cat", channels.V5, IN_OUT) as socket:
        await socket.send_bytes(b"\0hi\n")
        await socket.send_bytes(b"\xff\0")
        found = await everything(socket)
        assert found == {1: b"hi\n", 3: b'{"metadata":{},"status":"Success"}'}
        assert socket.close_code == 1000


async def test_v4_streams_without_end_of_stdin() -> None:
    async with client("/exec/cat", channels.V4, IN_OUT) as socket:
        await socket.send_bytes(b"\0hi\n")
        assert (await socket.receive_bytes()) == b"\x01hi\n"


async def test_exit_code_reaches_the_client() -> None:
    async with client("/exec/fail", channels.V5, Options(stdout=True, stderr=True)) as socket:
        found = await everything(socket)
        assert found[2] == b"oh no\n"
        assert channels.exit_code(orjson.loads(found[3])) == 3


async def test_old_protocols_get_plain_text() -> None:
    async with client("/exec/fail", "v3.channel.k8s.io", Options(stdout=True, stderr=True)) as socket:
        assert (await everything(socket))[3] == b"command terminated with non-zero exit code: exit status 3"


async def test_base64_variant() -> None:
    async with client("/exec/cat", "v4.base64.channel.k8s.io", IN_OUT) as socket:
        await socket.send_str("0aGkK")
        assert (await socket.receive_str()) == "1aGkK"


async def test_terminal_sizes_arrive() -> None:
    async with client("/exec/resize", channels.V5, Options(stdin=True, stdout=True, tty=True)) as socket:
        await socket.send_bytes(b'\x04{"Width":80,"Height":24}')
        assert (await everything(socket))[1] == b'{"Width":80,"Height":24}'


async def test_ten_megabytes_arrive_whole() -> None:
    async with client("/exec/flood", channels.V5, Options(stdout=True)) as socket:
        assert len((await everything(socket))[1]) == 10_000_000


async def test_older_port_forward_numbers_its_ports() -> None:
    async with client("/portforward", channels.V4, Options()) as socket:
        first = sorted([await socket.receive_bytes() for _ in range(4)])
        assert first == [b"\x00\x50\x00", b"\x01\x50\x00", b"\x02\xbb\x01", b"\x03\xbb\x01"]
        await socket.send_bytes(b"\x02ping")
        assert await socket.receive_bytes() == b"\x02443:ping"


async def test_tunnel_passes_spdy_untouched() -> None:
    from component.streams import spdy

    async with client("/portforward", channels.PORT_FORWARD_TUNNEL, Options()) as socket:
        core = spdy.Connection(client=True)
        stream = core.open({"streamType": "data", "port": "80"})
        await socket.send_bytes(b"".join(core.take()))
        events: list[spdy.Event] = []
        while not events:
            events += core.receive(await socket.receive_bytes())
        core.send(stream, b"ping", fin=True)
        await socket.send_bytes(b"".join(core.take()))
        received = b""
        while core.is_open(stream):
            for event in core.receive(await socket.receive_bytes()):
                assert isinstance(event, spdy.DataReceived)
                received += event.data
        assert received == b"80:ping"


async def test_client_that_leaves_ends_the_backend() -> None:
    async with client("/exec/cat", channels.V5, IN_OUT) as socket:
        await socket.send_bytes(b"\0x")
        await socket.receive_bytes()
    # leaving the block would have failed the test by a handler that still runs


async def test_refusals_come_back_whole_and_nothing_else_is_sent() -> None:
    async with running_streaming_server() as runtime:
        answer = await upgrade.connect("POST", f"{runtime}/refuse", upgrade.spdy_headers([channels.V4]))
        assert isinstance(answer, upgrade.Refusal)
        assert (answer.status, answer.body) == (404, b'container not found ("c")')


async def test_no_server_is_an_error_that_names_the_address() -> None:
    with pytest.raises(upgrade.UpgradeError, match=r"127\.0\.0\.1:1"):
        await upgrade.connect("POST", "http://127.0.0.1:1/", [])


async def test_silent_server_times_out() -> None:
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(upgrade.UpgradeError, match="within"):
        await upgrade.connect("POST", f"http://127.0.0.1:{port}/", [], timeout=0.05)
    server.close()
    await server.wait_closed()
    await asyncio.sleep(0)

"""``/exec``, ``/attach``, ``/portForward`` and ``/run``: join the caller's stream to the runtime's. Called by ``routes.py``.

A SPDY caller speaks with the runtime's own streaming server through us, byte for byte. A WebSocket caller is translated,
because that server's WebSocket cannot close stdin.
"""

from collections.abc import Sequence
from urllib.parse import parse_qsl

from aiohttp import web

from apimachinery import errors
from component.streams import channels, relay, upgrade
from component.streams.channels import Options, WebSocketChannels
from component.streams.duplex import Duplex, splice
from component.streams.hijacked import Hijacked
from component.streams.upgrade import Refusal
from cri import streaming
from node.kubelet.interface import KubeletFacade

_SOCKET_PROTOCOL = "Sec-WebSocket-Protocol"


async def exec_(request: web.Request, kubelet: KubeletFacade) -> web.StreamResponse:
    options = stream_options(request)
    container = await _container(request, kubelet)
    command = request.query.getall("command", [])
    url = await kubelet.streaming.exec(
        container, command, stdin=options.stdin, stdout=options.stdout, stderr=options.stderr, tty=options.tty
    )
    return await _command(request, url, options)


async def attach(request: web.Request, kubelet: KubeletFacade) -> web.StreamResponse:
    options = stream_options(request)
    container = await _container(request, kubelet)
    url = await kubelet.streaming.attach(
        container, stdin=options.stdin, stdout=options.stdout, stderr=options.stderr, tty=options.tty
    )
    return await _command(request, url, options)


async def run(request: web.Request, kubelet: KubeletFacade) -> web.StreamResponse:
    """A command without streams: its output, both kinds together, is the answer. ``cmd`` may be in the URL or a form."""
    form = dict(parse_qsl((await request.read()).decode(errors="replace")))
    command = (request.query.get("cmd") or form.get("cmd") or "").split()
    if not command:
        raise errors.bad_request("cmd is required")
    container = await _container(request, kubelet)
    options = Options(stdout=True, stderr=True)
    url = await kubelet.streaming.exec(container, command, stdin=False, stdout=True, stderr=True, tty=False)
    result = await streaming.run(url, options)
    if result.exit_code != 0:
        raise errors.internal(str(result.status.get("message") or "the command could not be run"))
    return web.Response(body=result.stdout + result.stderr, content_type="text/plain")


async def port_forward(request: web.Request, kubelet: KubeletFacade) -> web.StreamResponse:
    wanted = upgrade.wants(request.headers)
    offered = upgrade.offered(request.headers.items(), _SOCKET_PROTOCOL)
    protocol = _websocket_protocol(request, (channels.PORT_FORWARD_TUNNEL, *channels.WEBSOCKET_PROTOCOLS)) if offered else ""
    ports = [] if wanted == "spdy" or protocol == channels.PORT_FORWARD_TUNNEL else _ports(request)
    where = request.match_info
    sandbox = await kubelet.sandbox_id(where["namespace"], where["pod"], uid=where.get("uid"))
    url = await kubelet.streaming.port_forward(sandbox, ports)
    if wanted == "spdy":
        return await _splice(request, url)
    if wanted != "websocket":
        raise errors.bad_request("Upgrade request required")
    if protocol == channels.PORT_FORWARD_TUNNEL:
        answer = await streaming.dial(url, (channels.PORT_FORWARD,))
        if isinstance(answer, Refusal):
            return refused(answer)
        socket = upgrade.accept_websocket(request, request.headers.get("Sec-WebSocket-Key", ""), protocol)
        await relay.tunnel(socket, answer.duplex)
        return Hijacked()
    session = await streaming.session(url, (channels.PORT_FORWARD,))
    socket = upgrade.accept_websocket(request, request.headers.get("Sec-WebSocket-Key", ""), protocol)
    await relay.port_forward(WebSocketChannels(socket, protocol), session, ports)
    return Hijacked()


def stream_options(request: web.Request) -> Options:
    """From ``input``, ``output``, ``error`` and ``tty``. Raises StatusError 400 when there would be no stream at all."""

    def given(name: str) -> bool:
        return request.query.get(name, "") in ("1", "true")

    options = Options(given("input"), given("output"), given("error"), given("tty"))
    if not (options.stdin or options.stdout or options.stderr):
        raise errors.bad_request("you must specify at least 1 of stdin, stdout, stderr")
    # A terminal has one output; upstream drops stderr here as well.
    return Options(options.stdin, options.stdout, options.stderr and not options.tty, options.tty)


async def _container(request: web.Request, kubelet: KubeletFacade) -> str:
    where = request.match_info
    return await kubelet.container_id(where["namespace"], where["pod"], where["container"], uid=where.get("uid"))


async def _command(request: web.Request, url: str, options: Options) -> web.StreamResponse:
    match upgrade.wants(request.headers):
        case "spdy":
            return await _splice(request, url)
        case "websocket":
            protocol = _websocket_protocol(request, channels.WEBSOCKET_PROTOCOLS)
            session = await streaming.session(url)
            try:
                socket = upgrade.accept_websocket(request, request.headers.get("Sec-WebSocket-Key", ""), protocol)
            except BaseException:
                session.close()
                raise
            await relay.command(WebSocketChannels(socket, protocol), session, options)
            return Hijacked()
    raise errors.bad_request("Upgrade request required")


async def _splice(request: web.Request, url: str) -> web.StreamResponse:
    """Hand the caller's SPDY connection through to the runtime, with the protocols the caller offers."""
    offered = upgrade.offered(request.headers.items(), upgrade.PROTOCOL_HEADER)
    answer = await streaming.dial(url, tuple(offered))
    if isinstance(answer, Refusal):
        return refused(answer)
    headers = [("Connection", "Upgrade"), ("Upgrade", upgrade.SPDY)]
    if chosen := answer.headers.get(upgrade.PROTOCOL_HEADER.lower()):
        headers.append((upgrade.PROTOCOL_HEADER, chosen))
    caller = Duplex()
    try:
        upgrade.hijack(request, caller, headers)
        await splice(caller, answer.duplex)
    finally:
        answer.duplex.close()
    return Hijacked()


def _websocket_protocol(request: web.Request, served: Sequence[str]) -> str:
    if request.headers.get("Sec-WebSocket-Version") != "13" or not request.headers.get("Sec-WebSocket-Key"):
        raise errors.bad_request("unable to upgrade: a WebSocket of version 13 with a key is required")
    offered = upgrade.offered(request.headers.items(), _SOCKET_PROTOCOL)
    protocol = channels.choose(offered, served)
    if protocol is None:
        raise errors.forbidden(f"unable to upgrade: unable to negotiate protocol: client supports {offered}")
    return protocol


def _ports(request: web.Request) -> list[int]:
    """``ports`` or ``port``, repeated or with commas, as clients of the older WebSocket port-forward give them."""
    texts = [text for name in ("ports", "port") for value in request.query.getall(name, []) for text in value.split(",") if text]
    if not texts:
        raise errors.bad_request('query parameter "port" is required')
    if not all(text.isdigit() and 0 < int(text) < 65536 for text in texts):
        raise errors.bad_request(f"unable to parse {','.join(texts)!r} as a port")
    return [int(text) for text in texts]


def refused(answer: Refusal) -> web.Response:
    """The runtime's refusal as our answer, after which the connection closes: nothing the caller sends reaches anyone."""
    response = web.Response(status=answer.status if answer.status >= 400 else 502, body=answer.body, content_type="text/plain")
    response.force_close()
    return response

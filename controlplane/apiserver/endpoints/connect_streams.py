"""``/exec``, ``/attach`` and ``/portforward``: from kubectl's protocol to the kubelet's, which is SPDY/3.1.

A SPDY client and the kubelet talk through us untouched. WebSocket v5 is translated (older kubelets do not know it), the
port-forward tunnel is unwrapped, and older WebSocket protocols pass through to the kubelet, which serves them itself.
"""

from collections.abc import Awaitable, Callable, Sequence

from apimachinery import errors
from component.streams import channels, relay, upgrade
from component.streams.channels import Options, WebSocketChannels
from component.streams.hijacked import Hijacked
from component.streams.session import Session
from component.streams.upgrade import Refusal, Upgraded
from controlplane.apiserver.admission.interface import Lookup
from controlplane.apiserver.endpoints import connect_pod
from controlplane.apiserver.endpoints.connect_kubelet import Kubelets
from controlplane.apiserver.endpoints.connect_tunnel import dial, refused, tunnel
from controlplane.apiserver.endpoints.read_socket import key_of
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.info import is_true
from controlplane.apiserver.wire.reply import Answer

MayCreate = Callable[[Call], Awaitable[None] | None]
"""Raises a 403 unless the caller may ``create`` what the call names."""

_SOCKET_PROTOCOL = "Sec-WebSocket-Protocol"


class Streams:
    """The three endpoints; each lasts as long as its stream."""

    def __init__(self, lookup: Lookup, kubelets: Kubelets, may_create: MayCreate) -> None:
        self._lookup = lookup
        self._kubelets = kubelets
        self._may = may_create

    async def exec(self, call: Call) -> Answer:
        command = call.query_all("command")
        if not command:
            raise errors.bad_request("you must specify at least one command for the container")
        return await self._run(call, "exec", [("command", word) for word in command])

    async def attach(self, call: Call) -> Answer:
        return await self._run(call, "attach", [])

    async def port_forward(self, call: Call) -> Answer:
        await self._may_create(call)
        pod = await connect_pod.pod_of(call, self._lookup)
        target = await self._kubelets.of_node(connect_pod.node_of(pod))
        ports = [("port", port) for port in call.query_all("ports") or call.query_all("port")]
        url = target.url("portForward", call.info.namespace, call.info.name, query=ports)
        if _offered(call) and channels.PORT_FORWARD_TUNNEL in _offered(call):
            return await self._unwrap(call, url)
        return await self._pass_through(call, url)

    async def _run(self, call: Call, verb: str, query: list[tuple[str, str]]) -> Answer:
        await self._may_create(call)
        options = stream_options(call)
        pod = await connect_pod.pod_of(call, self._lookup)
        container = connect_pod.container_of(pod, call.query.get("container", ""))
        target = await self._kubelets.of_node(connect_pod.node_of(pod))
        flags = {"input": options.stdin, "output": options.stdout, "error": options.stderr, "tty": options.tty}
        query = [*((name, "1") for name, given in flags.items() if given), *query]
        url = target.url(verb, call.info.namespace, call.info.name, container, query=query)
        if upgrade.wants(call.headers) == "websocket" and channels.V5 in _offered(call):
            return await self._translate(call, url, options)
        return await self._pass_through(call, url)

    async def _may_create(self, call: Call) -> None:
        """A WebSocket handshake is a GET, which readers may send; running commands needs ``create`` whatever the verb."""
        if call.info.verb != "create" and (pending := self._may(call)) is not None:
            await pending

    async def _pass_through(self, call: Call, url: str) -> Answer:
        if not upgrade.wants(call.headers):
            raise errors.bad_request("Upgrade request required")
        return await tunnel(call, url, self._kubelets.context(), upgrade_headers(call))

    async def _translate(self, call: Call, url: str, options: Options) -> Answer:
        key = key_of(call)
        answer = await self._spdy(url, channels.SPDY_PROTOCOLS)
        if isinstance(answer, Refusal):
            return refused(answer)
        session = Session(client=True)
        answer.duplex.switch(session)
        try:
            socket = upgrade.accept_websocket(call.http, key, channels.V5)
            await relay.command(WebSocketChannels(socket, channels.V5), session, options)
        finally:
            session.close()
        return Hijacked()

    async def _unwrap(self, call: Call, url: str) -> Answer:
        key = key_of(call)
        answer = await self._spdy(url, (channels.PORT_FORWARD,))
        if isinstance(answer, Refusal):
            return refused(answer)
        try:
            socket = upgrade.accept_websocket(call.http, key, channels.PORT_FORWARD_TUNNEL)
            await relay.tunnel(socket, answer.duplex)
        finally:
            answer.duplex.close()
        return Hijacked()

    async def _spdy(self, url: str, protocols: Sequence[str]) -> Upgraded | Refusal:
        return await dial("POST", url, upgrade.spdy_headers(protocols), self._kubelets.context())


def stream_options(call: Call) -> Options:
    """From the URL; what it does not name is off. Raises StatusError 400 when there would be no stream at all."""
    options = Options(*(is_true(call.query.get(name)) for name in ("stdin", "stdout", "stderr", "tty")))
    if not (options.stdin or options.stdout or options.stderr):
        raise errors.bad_request("you must specify at least 1 of stdin, stdout, stderr")
    return Options(options.stdin, options.stdout, options.stderr and not options.tty, options.tty)


def upgrade_headers(call: Call) -> list[tuple[str, str]]:
    """The headers of the client's handshake, for the kubelet: nothing else of the request, and no credentials."""
    names = ("connection", "upgrade", upgrade.PROTOCOL_HEADER.lower())
    kept = []
    for name, value in call.headers.items():
        lower = name.lower()
        if lower in names or lower.startswith("sec-websocket-"):
            shown = upgrade.without_tokens(value) if lower == _SOCKET_PROTOCOL.lower() else value
            if shown:
                kept.append((name, shown))
    return [*kept, ("Content-Length", "0")]


def _offered(call: Call) -> list[str]:
    return upgrade.offered(call.headers.items(), _SOCKET_PROTOCOL)

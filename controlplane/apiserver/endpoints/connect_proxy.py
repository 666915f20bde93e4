"""``/proxy``: any HTTP request, WebSockets included, to a pod, a service or a node's kubelet, and its answer back.

Addresses follow upstream's rule: a pod or service is only reached on a global unicast address, so that nobody uses us to
talk to our own loopback. A kubelet is reached wherever its node has registered it.
"""

import ipaddress
import posixpath
import random
import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import aiohttp
from aiohttp import web
from yarl import URL

from apimachinery import errors
from component import tls
from component.streams import upgrade
from controlplane.apiserver.admission.interface import Lookup
from controlplane.apiserver.endpoints.body import stream
from controlplane.apiserver.endpoints.connect_html import Rewriter, unpacked
from controlplane.apiserver.endpoints.connect_kubelet import Kubelets, backend_error
from controlplane.apiserver.endpoints.connect_streams import MayCreate
from controlplane.apiserver.endpoints.connect_tunnel import tunnel
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.reply import Answer, Reply

Object = Mapping[str, Any]
_NAME = re.compile(r"(?:(?P<scheme>https?|):)?(?P<name>[^:]+)(?::(?P<port>[^:]*))?")
# Belongs to one connection, or to the client's identity here: never passed on.
_HOP = frozenset({"connection", "keep-alive", "proxy-authenticate", "trailer", "transfer-encoding", "upgrade", "content-length"})
_IDENTITY = ("impersonate-", "x-remote-")  # of users: what is behind us might believe them
_PAGE_LIMIT = 16 << 20
_RUNS = frozenset({"exec", "attach", "portForward", "run"})  # paths of the kubelet that run commands
_REQUEST_DROP = _HOP | {"proxy-authorization", "proxy-connection", "te", "host", "authorization", "expect"}


@dataclass(frozen=True, slots=True)
class Backend:
    """Where a request goes; ``context`` for https."""

    base: str
    context: ssl.SSLContext | None


class Proxy:
    """The three endpoints, for every verb."""

    def __init__(self, lookup: Lookup, kubelets: Kubelets, may_create: MayCreate) -> None:
        self._lookup = lookup
        self._kubelets = kubelets
        self._may_create = may_create

    async def pods(self, call: Call) -> Answer:
        scheme, name, port = split_name(call.info.name, "pod")
        pod = await self._lookup("pods", call.info.namespace, name)
        if pod is None:
            raise errors.not_found("pods", name)
        status = pod.get("status") or {}
        return await self._forward(call, self._backend(scheme, checked(status.get("podIP", "")), port or first_port(pod)))

    async def services(self, call: Call) -> Answer:
        scheme, name, port = split_name(call.info.name, "service")
        service = await self._lookup("services", call.info.namespace, name)
        if service is None:
            raise errors.not_found("services", name)
        endpoints = await self._lookup("endpoints", call.info.namespace, name)
        host, number = choose_endpoint(service, endpoints or {}, port)
        return await self._forward(call, self._backend(scheme, checked(host), str(number)))

    async def nodes(self, call: Call) -> Answer:
        scheme, name, port = split_name(call.info.name, "node")
        if runs_commands(call.info.tail) and call.info.verb != "create" and (pending := self._may_create(call)) is not None:
            await pending  # the kubelet sees our name, so it cannot tell who is behind us
        target = await self._kubelets.of_node(name)
        if port in ("", str(target.port)):
            return await self._forward(call, Backend(f"https://{target.authority}", self._kubelets.context()))
        return await self._forward(call, self._backend(scheme, checked(target.host), port))

    def _backend(self, scheme: str, host: str, port: str) -> Backend:
        shown = f"[{host}]" if ":" in host else host
        base = f"{scheme or 'http'}://{shown}" + (f":{port}" if port else "")
        # What runs in pods has no certificate that we could know; upstream does not verify it either.
        return Backend(base, tls.client_context(insecure=True) if scheme == "https" else None)

    async def _forward(self, call: Call, backend: Backend) -> Answer:
        query = f"?{call.query_string}" if call.query_string else ""
        if upgrade.wants(call.headers) or "upgrade" in call.headers.get("Connection", "").lower():
            headers = [*passed_on(call, drop=_REQUEST_DROP - {"connection", "upgrade"}), ("Content-Length", "0")]
            return await tunnel(call, f"{backend.base}{call.info.tail or '/'}{query}", backend.context, headers)
        if not call.info.tail:
            if not call.path.endswith("/"):
                return Reply(301, headers=[("Location", f"{call.path}/{query}")])
            call.info.tail = "/"
        url = URL(f"{backend.base}{call.info.tail}{query}", encoded=True)
        try:
            answer = await self._kubelets.session.request(
                call.method,
                url,
                headers=[*passed_on(call, drop=_REQUEST_DROP), *_length(call)],
                data=stream(call),
                ssl=backend.context or True,
                allow_redirects=False,
            )
        except (aiohttp.ClientError, TimeoutError) as error:
            raise backend_error(f"error trying to reach service: {error}", 503) from error
        async with answer:
            return await _pass_on(call, answer, backend)


async def _pass_on(call: Call, answer: aiohttp.ClientResponse, backend: Backend) -> web.StreamResponse:
    rewriter = Rewriter(own_path(call), urlsplit(backend.base).netloc, call.headers.get("Host", ""))
    response = web.StreamResponse(status=answer.status, reason=answer.reason)
    for name, value in answer.headers.items():
        if name.lower() not in _HOP:
            response.headers.add(name, rewriter.url(value) if name.lower() == "location" else value)
    response.headers["Audit-Id"] = call.audit_id
    page = await _page(call, answer)
    length = answer.content_length
    if page is not None and (plain := unpacked(page, answer.headers.get("Content-Encoding", ""), _PAGE_LIMIT)) is not None:
        page = rewriter.page(plain)
        length = len(page)
        response.headers.popall("Content-Encoding", None)
    if length is not None:
        response.content_length = length
    elif call.method != "HEAD" and answer.status not in (204, 304):
        response.enable_chunked_encoding()
    await response.prepare(call.http)
    if page:
        await response.write(page)
    try:
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
    except aiohttp.ClientError as error:
        raise ConnectionError("the backend broke off") from error
    await response.write_eof()
    return response


async def _page(call: Call, answer: aiohttp.ClientResponse) -> bytes | None:
    """The body of an HTML page, read whole because its links must be changed; None for what streams through."""
    if answer.content_type != "text/html" or call.method == "HEAD" or (answer.content_length or 0) > _PAGE_LIMIT:
        return None
    body = b""
    try:
        async for chunk in answer.content.iter_any():
            body += chunk
            if len(body) > _PAGE_LIMIT:
                raise backend_error(f"a page of more than {_PAGE_LIMIT >> 20} MiB cannot be proxied", 502)
    except aiohttp.ClientError as error:
        raise backend_error(f"error trying to reach service: {error}", 503) from error
    return body


def own_path(call: Call) -> str:
    """The path of the proxy subresource itself, without what belongs to the backend."""
    tail = call.info.tail
    return call.path.removesuffix(tail) if tail else call.path


def split_name(text: str, kind: str) -> tuple[str, str, str]:
    """``[scheme:]name[:port]`` to its parts. Raises StatusError 400."""
    match = _NAME.fullmatch(text)
    if match is None:
        raise errors.bad_request(f'invalid {kind} request "{text}"')
    return match["scheme"] or "", match["name"], match["port"] or ""


def runs_commands(tail: str) -> bool:
    """Whether a kubelet would run something for this path, however it is spelled. Pure."""
    plain = unquote(tail)
    return any(path.strip("/").split("/", 1)[0] in _RUNS for path in (plain, posixpath.normpath("/" + plain.lstrip("/"))))


def checked(host: str) -> str:
    """The address, if a proxy may go there. Raises StatusError 400."""
    try:
        address = plain_address(host)
    except ValueError:
        raise errors.bad_request("address not allowed") from None
    if (
        address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or str(address) == "255.255.255.255"
    ):
        raise errors.bad_request("address not allowed")
    return host


def plain_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An IPv4 address written as IPv6 is what it leads to: ``::ffff:127.0.0.1`` is loopback. Raises ValueError."""
    address = ipaddress.ip_address(host)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def first_port(pod: Object) -> str:
    for container in pod["spec"].get("containers") or ():
        for port in container.get("ports") or ():
            return str(port["containerPort"])
    return ""


def choose_endpoint(service: Object, endpoints: Object, port: str) -> tuple[str, int]:
    """One ready address behind a service, by port name or number, at random. Raises StatusError 503."""
    name = service["metadata"]["name"]
    if port.isdigit():
        ports = service["spec"].get("ports") or ()
        found = next((item for item in ports if item.get("port") == int(port)), None)
        if found is None:
            raise errors.service_unavailable(f'no service port {port} found for service "{name}"')
        port = found.get("name", "")
    choices: Sequence[tuple[str, int]] = [
        (address["ip"], int(item["port"]))
        for subset in endpoints.get("subsets") or ()
        for item in subset.get("ports") or ()
        if item.get("name", "") == port
        for address in subset.get("addresses") or ()
    ]
    if not choices:
        raise errors.service_unavailable(f'no endpoints available for service "{name}"')
    return random.choice(choices)  # noqa: S311 - spreads load, guards nothing


def passed_on(call: Call, drop: frozenset[str]) -> list[tuple[str, str]]:
    """The client's headers without those of its connection and identity, and with where they came through."""
    named = {name.strip().lower() for name in call.headers.get("Connection", "").split(",")} - {"upgrade"}
    kept = []
    for name, value in call.headers.items():
        lower = name.lower()
        if lower in drop or lower in named or lower.startswith(_IDENTITY):
            continue
        shown = upgrade.without_tokens(value) if lower == "sec-websocket-protocol" else value
        if shown:
            kept.append((name, shown))
    peer = call.http.remote or ""
    kept.append(("X-Forwarded-Uri", call.path))
    return [*kept, ("X-Forwarded-For", peer)] if peer else kept


def _length(call: Call) -> list[tuple[str, str]]:
    length = call.headers.get("Content-Length")
    return [("Content-Length", length)] if length and call.http.body_exists else []

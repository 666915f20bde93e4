"""Requests of group versions that others answer for: to their server and back, in the name of whoever asked.

``routing`` comes here with calls that every filter has let pass, so who asks is known and may. Bodies stream both ways. What
goes wrong here is answered in plain text, as upstream does it; what the server itself says goes through as it is.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from urllib.parse import unquote, urlencode

import aiohttp
from aiohttp import web
from yarl import URL

from apimachinery import errors
from apimachinery.gvk import GroupVersion
from component import logs
from component.streams import upgrade
from component.streams.duplex import Duplex, splice
from component.streams.hijacked import Hijacked
from component.streams.upgrade import Refusal, UpgradeError
from controlplane.apiserver import call_failures
from controlplane.apiserver.aggregation.backends import Backend, Backends
from controlplane.apiserver.aggregation.identity import identity_headers
from controlplane.apiserver.aggregation.registered import Registered
from controlplane.apiserver.config import FrontProxy
from controlplane.apiserver.endpoints.body import stream
from controlplane.apiserver.endpoints.connect import OpenStreams
from controlplane.apiserver.endpoints.connect_proxy import passed_on
from controlplane.apiserver.endpoints.connect_tunnel import refused
from controlplane.apiserver.filters.long_running import is_long_running
from controlplane.apiserver.service_client import ResolveError
from controlplane.apiserver.wire.call import Call
from controlplane.apiserver.wire.query import pairs
from controlplane.apiserver.wire.reply import TEXT, Answer, Reply

_log = logs.get(__name__)
Endpoint = Callable[[Call], Awaitable[Answer]]
_HOP = frozenset({"connection", "keep-alive", "proxy-authenticate", "trailer", "transfer-encoding", "upgrade", "content-length"})
_OF_CONNECTION = _HOP - {"connection", "upgrade"}
_DROP = _HOP | {"proxy-authorization", "proxy-connection", "te", "host", "authorization", "audit-id", "expect"}
_OURS = frozenset({"audit-id", "date", "x-kubernetes-pf-flowschema-uid", "x-kubernetes-pf-prioritylevel-uid"})
_REDIRECT = b"the backend attempted to redirect this request, which is not permitted"


class Proxy:
    """``endpoints`` is what ``routing`` looks requests up in; it is kept as the APIServices are.

    ``with_uid`` tells servers the uid of users too; ``reject_redirects`` keeps clients from being sent elsewhere. ``names`` are
    the headers of front proxies as they are configured: servers are told of them (``extension-apiserver-authentication``) and
    would believe clients that send them, so none of a client's goes through.
    """

    def __init__(
        self,
        backends: Backends,
        streams: OpenStreams,
        names: FrontProxy | None = None,
        *,
        with_uid: bool = True,
        reject_redirects: bool = True,
    ) -> None:
        self._backends, self._streams = backends, streams
        believed = names or FrontProxy()
        whole = (*believed.user_headers, *believed.group_headers, *believed.uid_headers)
        self._drop = _DROP | {name.lower() for name in whole}
        self._prefixes = tuple(prefix.lower() for prefix in believed.extra_prefixes)
        self._with_uid, self._reject_redirects = with_uid, reject_redirects
        self.endpoints: dict[tuple[str, str], Endpoint] = {}

    def update(self, remote: Mapping[GroupVersion, Registered]) -> None:
        """These group versions are answered by others."""
        self.endpoints.clear()
        for version, one in remote.items():
            self.endpoints[version] = self._streams.tracked(partial(self.serve, target=one), _lasts)

    async def serve(self, call: Call, target: Registered) -> Answer:
        if not target.available:
            return plain(503, "service unavailable")
        if any(unquote(part) in (".", "..") for part in call.path.split("/")):
            raise errors.bad_request("the path may not contain '.' or '..'")
        try:
            backend = await self._backends.of(target)
        except ResolveError as problem:
            _log.error("Cannot resolve the Service of an APIService", name=target.name, err=problem)
            return plain(503, "service unavailable")
        except ValueError as problem:
            return plain(500, str(problem))
        if call.on_caught_up is not None:  # how much a watch costs at its beginning is not ours to know
            call.on_caught_up()
        user = call.user if self._with_uid else replace(call.user, uid="")
        query = urlencode(pairs(call.query_string)) if call.query_string else ""
        url = f"{backend.origin}{call.path}" + (f"?{query}" if query else "")
        identity = [*identity_headers(user), ("Audit-ID", call.audit_id)]
        if _upgrades(call):
            headers = [*self._kept(call, self._drop - {"connection", "upgrade"}), *identity, ("Content-Length", "0")]
            return await self._tunnel(call, url, backend, headers)
        return await self._forward(call, url, backend, [*self._kept(call, self._drop), *identity, *_length(call)])

    def _kept(self, call: Call, drop: frozenset[str]) -> list[tuple[str, str]]:
        kept = passed_on(call, drop=drop)
        return [each for each in kept if not each[0].lower().startswith(self._prefixes)] if self._prefixes else kept

    async def _forward(self, call: Call, url: str, backend: Backend, headers: list[tuple[str, str]]) -> Answer:
        left = None if is_long_running(call) else call.seconds - (time.perf_counter() - call.started)
        begun: list[web.StreamResponse] = []
        try:
            async with asyncio.timeout(left):
                async with self._backends.session.request(
                    call.method,
                    URL(url, encoded=True),
                    headers=headers,
                    data=stream(call),
                    ssl=backend.context,
                    server_hostname=backend.server_name,
                    allow_redirects=False,
                ) as answer:
                    if self._reject_redirects and 300 <= answer.status <= 399 and "Location" in answer.headers:
                        return Reply(502, _REDIRECT, TEXT)
                    return await _pass_on(call, answer, begun)
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            if begun or call.http.transport is None:
                raise _broken(call) from problem
            if isinstance(problem, TimeoutError) and not isinstance(problem, aiohttp.ClientError):
                raise  # the request's own time is over
            return plain(503, call_failures.of_exchange(problem, backend.host, backend.port, backend.server_name))

    async def _tunnel(self, call: Call, url: str, backend: Backend, headers: list[tuple[str, str]]) -> Answer:
        """An upgrade passed on; what a server says that does not agree to it is an answer, and the end of the connection."""
        sent = [(name, value.encode().decode("latin-1")) for name, value in headers]  # the head goes out in that
        try:
            answer = await upgrade.connect(call.method, url, sent, ssl_context=backend.context, server_name=backend.server_name)
        except (UpgradeError, ValueError) as problem:
            return plain(503, f"error dialing backend: {problem}")
        if isinstance(answer, Refusal):
            if self._reject_redirects and 300 <= answer.status <= 399 and "location" in answer.headers:
                return Reply(502, _REDIRECT, TEXT)
            return refused(answer)
        client = Duplex()
        try:
            kept = [(name.title(), value) for name, value in answer.headers.items() if name not in _OF_CONNECTION]
            upgrade.hijack(call.http, client, kept)
            await splice(client, answer.duplex)
        finally:
            answer.duplex.close()
        return Hijacked()


def plain(code: int, text: str) -> Reply:
    """Upstream's answers for what goes wrong between it and a server are text, and end with a line break."""
    return Reply(code, f"{text}\n".encode(), TEXT, [("X-Content-Type-Options", "nosniff")])


async def _pass_on(call: Call, answer: aiohttp.ClientResponse, begun: list[web.StreamResponse]) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, reason=answer.reason)
    for name, value in answer.headers.items():
        if name.lower() not in _HOP and name.lower() not in _OURS:
            response.headers.add(name, value)
    response.headers["Audit-Id"] = call.audit_id
    response.headers.setdefault("Cache-Control", "no-cache, private")
    for line in call.flow_headers.decode().splitlines():
        name, _, value = line.partition(": ")
        response.headers[name] = value
    if answer.content_length is not None:
        response.content_length = answer.content_length
    elif call.method != "HEAD" and answer.status not in (204, 304):
        response.enable_chunked_encoding()
    begun.append(response)
    await response.prepare(call.http)
    if call.on_response is not None:  # an answer may last: the audit log hears of its beginning
        call.on_response(answer.status)
        call.on_response = None
    async for chunk in answer.content.iter_any():
        await response.write(chunk)
    await response.write_eof()
    return response


def _broken(call: Call) -> ConnectionError:
    """A client must not take what it was given for the whole: its connection ends in the middle of the answer."""
    if call.http.transport is not None:
        call.http.transport.abort()
    return ConnectionResetError("the answer broke off")


def _upgrades(call: Call) -> bool:
    return "upgrade" in call.headers.get("Connection", "").lower() and "Upgrade" in call.headers


def _lasts(call: Call) -> bool:
    return call.info.verb == "watch" or _upgrades(call)


def _length(call: Call) -> list[tuple[str, str]]:
    length = call.headers.get("Content-Length")
    return [("Content-Length", length)] if length and call.http.body_exists else []

"""An extension API server: HTTPS on loopback, one group with two versions, and nobody believed but the front proxy.

    async with extension_server(front_proxy_ca) as extension:
        extension.register(server, "v1.things.example")    # ExternalName Service and APIService
        extension.asked                                    # what came in, with who it was for

It answers for ``things.example/v1``: discovery, ``widgets`` (list, watch, create echoes the body), a WebSocket that echoes, a
redirect, and its own OpenAPI documents. ``review`` is asked before each request for a resource, as delegated authorization is.
"""

import asyncio
import base64
import contextlib
import json
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from component import x509

GROUP, VERSION = "things.example", "v1"
ROOT = f"/apis/{GROUP}/{VERSION}"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_KIND = {"group": GROUP, "version": VERSION, "kind": "Widget"}
_LISTS = {
    "kind": "APIResourceList",
    "apiVersion": "v1",
    "groupVersion": f"{GROUP}/{VERSION}",
    "resources": [
        {"name": "widgets", "singularName": "widget", "namespaced": True, "kind": "Widget", "verbs": ["create", "get", "list"]},
        {"name": "widgets/status", "singularName": "", "namespaced": True, "kind": "Widget", "verbs": ["get"]},
    ],
}
_DOCUMENT = {
    "kind": "APIGroupDiscoveryList",
    "apiVersion": "apidiscovery.k8s.io/v2",
    "metadata": {},
    "items": [
        {
            "metadata": {"name": GROUP, "creationTimestamp": None},
            "versions": [
                {
                    "version": VERSION,
                    "freshness": "Current",
                    "resources": [
                        {
                            "resource": "widgets",
                            "responseKind": _KIND,
                            "scope": "Namespaced",
                            "singularResource": "widget",
                            "shortNames": ["wid"],
                            "verbs": ["create", "get", "list"],
                        }
                    ],
                }
            ],
        }
    ],
}


@dataclass
class Asked:
    method: str
    path: str
    query: str
    headers: list[tuple[str, str]]
    body: bytes
    certificate: str  # the common name of whoever connected

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name.lower()]


@dataclass
class ExtensionServer:
    port: int
    ca: x509.KeyPair
    asked: list[Asked] = field(default_factory=list)
    aggregated: bool = True  # whether it has an aggregated document
    failing: bool = False  # whether it answers everything with 500
    review: Callable[[Asked], Awaitable[bool]] | None = None
    release: asyncio.Event = field(default_factory=asyncio.Event)  # lets a watch go on after its first event
    described: dict[str, Any] = field(default_factory=dict)  # its OpenAPI v2 document; empty for none
    has_v3: bool = True
    connections: list[asyncio.BaseTransport] = field(default_factory=list)  # of what was asked, in the same order
    answers: dict[str, Any] = field(default_factory=dict)  # by path: what it says instead of what follows here

    @property
    def ca_bundle(self) -> str:
        return base64.b64encode(self.ca.certificate).decode()

    def service(self, name: str = "things", namespace: str = "default") -> dict[str, Any]:
        return {
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": self.port}]},
        }

    def api_service(self, version: str = VERSION, name: str = "things", **spec: Any) -> dict[str, Any]:
        reference = {"namespace": "default", "name": name, "port": self.port}
        wanted = {"group": GROUP, "version": version, "service": reference, "groupPriorityMinimum": 2000, "versionPriority": 10}
        return {"metadata": {"name": f"{version}.{GROUP}"}, "spec": {**wanted, "caBundle": self.ca_bundle, **spec}}

    def for_paths(self, prefix: str) -> list[Asked]:
        return [each for each in self.asked if each.path.startswith(prefix)]

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        peer = request.transport.get_extra_info("peercert") if request.transport else None
        names = {key: value for rdn in (peer or {}).get("subject", ()) for key, value in rdn}
        upgrading = request.headers.get("Upgrade", "").lower() == "websocket"
        asked = Asked(
            request.method,
            request.raw_path.partition("?")[0],
            request.raw_path.partition("?")[2],
            list(request.headers.items()),
            b"" if upgrading else await request.read(),
            names.get("commonName", ""),
        )
        self.asked.append(asked)
        assert request.transport is not None
        self.connections.append(request.transport)
        if self.failing:
            return web.Response(status=500, text="out of order")
        if self.review is not None and asked.path.startswith(ROOT + "/") and not await self.review(asked):
            return web.json_response({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403}, status=403)
        return await self._answer(request, asked)

    async def _answer(self, request: web.Request, asked: Asked) -> web.StreamResponse:
        path = asked.path
        if path in self.answers:
            return web.json_response(self.answers[path])
        if path == "/apis":
            return self._discovery(request)
        if path == ROOT:
            return web.json_response(_LISTS)
        if path.startswith("/openapi/"):
            return self._described(path)
        if path == f"{ROOT}/elsewhere":
            return web.Response(status=302, headers={"Location": "https://10.0.0.1/secrets"})
        if path == f"{ROOT}/slow":
            await self.release.wait()
        if path == f"{ROOT}/broken":
            return await self._break_off(request)
        if path.endswith("/connect"):
            return await self._echo(request)
        if "watch=" in asked.query:
            return await self._watch(request)
        if request.method == "POST":
            return web.Response(status=201, body=asked.body, content_type="application/json")
        return web.json_response({"kind": "WidgetList", "apiVersion": f"{GROUP}/{VERSION}", "metadata": {}, "items": []})

    def _discovery(self, request: web.Request) -> web.Response:
        if not self.aggregated:
            return web.Response(status=406)
        if request.headers.get("If-None-Match") == '"1"':
            return web.Response(status=304)
        return web.Response(body=json.dumps(_DOCUMENT).encode(), headers={"ETag": '"1"', "Content-Type": AGGREGATED})

    def _described(self, path: str) -> web.Response:
        if not self.described or (path.startswith("/openapi/v3") and not self.has_v3):
            return web.Response(status=404)
        if path == "/openapi/v2":
            return web.json_response(self.described)
        if path == "/openapi/v3":
            where = {"serverRelativeURL": f"/openapi/v3/apis/{GROUP}/{VERSION}?hash=ABC"}
            return web.json_response({"paths": {f"apis/{GROUP}/{VERSION}": where, "apis/apps/v1": where}})
        return web.json_response({"openapi": "3.0.0", "info": {"title": "Things"}})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(b'{"type":"ADDED"}\n')
        await self.release.wait()
        await response.write(b'{"type":"DELETED"}\n')
        await response.write_eof()
        return response

    async def _break_off(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"a part")
        assert request.transport is not None
        request.transport.close()
        return response

    async def _echo(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            await socket.send_str(f"heard {message.data}")
        return socket


@contextlib.asynccontextmanager
async def extension_server(front_proxy_ca: bytes, *names: str) -> AsyncIterator[ExtensionServer]:
    """``names`` are those of its certificate, ``things.default.svc`` by default."""
    ca = x509.new_ca("extensions")
    pair = x509.issue(ca, x509.Request("extension", dns_names=names or ("things.default.svc",)))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory(prefix="pyb-extension-") as directory:
        certificate, key = Path(directory, "tls.crt"), Path(directory, "tls.key")
        pair.save(certificate, key)
        context.load_cert_chain(certificate, key)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=front_proxy_ca.decode())
    server = ExtensionServer(0, ca)
    app = web.Application(client_max_size=16 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", server._handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        server.port = runner.addresses[0][1]
        yield server
    finally:
        server.release.set()
        await runner.cleanup()

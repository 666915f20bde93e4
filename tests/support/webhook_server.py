"""A webhook of somebody else's: HTTPS on loopback, with a CA of its own and an answer for each path.

async with hook_server() as hooks:
    hooks.on("/validate", lambda review: allowed(review))
    hooks.client_config("/validate")        # for a configuration, by URL
    hooks.asked                             # what came in
"""

import base64
import contextlib
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from component import x509

Review = dict[str, Any]
Answered = Review | web.StreamResponse | None
Answer = Callable[[Review], Answered | Awaitable[Answered]]
"""None closes the connection without a word."""


@dataclass
class Asked:
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    review: Review
    connection: int  # the same number for requests on one connection
    certificate: dict[str, Any] | None


@dataclass
class HookServer:
    port: int
    ca: x509.KeyPair
    asked: list[Asked] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)

    @property
    def ca_bundle(self) -> str:
        return base64.b64encode(self.ca.certificate).decode()

    def on(self, path: str, answer: Answer) -> None:
        self.answers[path] = answer

    def client_config(self, path: str) -> dict[str, Any]:
        return {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": self.ca_bundle}

    def requests(self, path: str) -> list[dict[str, Any]]:
        """The ``request`` of each review that came to ``path``."""
        return [each.review["request"] for each in self.asked if each.path == path]

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        review = await request.json()
        connection = request.transport.get_extra_info("peername")[1] if request.transport else 0
        peer = request.transport.get_extra_info("peercert") if request.transport else None
        self.asked.append(Asked(request.path, dict(request.query), dict(request.headers), review, connection, peer))
        found = self.answers[request.path](review)
        answer = found if isinstance(found, dict | web.StreamResponse | None) else await found
        if answer is None:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        return web.json_response(answer) if isinstance(answer, dict) else answer


def reviewed(review: Review, allowed: bool = True, **response: Any) -> Review:
    """The answer to an AdmissionReview, in its version."""
    said = {"uid": review["request"]["uid"], "allowed": allowed, **response}
    return {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": said}


@contextlib.asynccontextmanager
async def hook_server(*names: str, client_ca: bytes | None = None) -> AsyncIterator[HookServer]:
    """``names`` are in its certificate beside 127.0.0.1. With ``client_ca`` it takes nobody without a certificate."""
    ca = x509.new_ca("webhooks")
    pair = x509.issue(ca, x509.Request("webhook", dns_names=names, ip_addresses=("127.0.0.1",)))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory(prefix="pyb-hook-") as directory:
        certificate, key = Path(directory, "hook.crt"), Path(directory, "hook.key")
        pair.save(certificate, key)
        context.load_cert_chain(certificate, key)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=client_ca.decode())
    server = HookServer(0, ca)
    app = web.Application(client_max_size=16 * 1024 * 1024)
    app.router.add_post("/{path:.*}", server._handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        server.port = runner.addresses[0][1]
        yield server
    finally:
        await runner.cleanup()

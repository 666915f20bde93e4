"""Posting to webhooks over real connections: trust, identity, bounds, and the words for what goes wrong."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from component import x509
from controlplane.apiserver.service_client import ClientConfig, HookClients, HookError, ResolveError, UnusableConfigError, Users
from tests.support.ports import free_port
from tests.support.webhook_server import HookServer, hook_server

BODY = b'{"kind":"AdmissionReview"}'


class Resolver:
    """Every Service is on loopback, as far as there is one."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def resolve(self, namespace: str, name: str, port: int) -> tuple[str, int]:
        if name == "missing":
            raise ResolveError(f'service "{name}" not found')
        return "127.0.0.1", self.port


@pytest.fixture
async def server() -> AsyncIterator[HookServer]:
    async with hook_server("hook.n.svc") as made:
        made.on("/", lambda review: {"ok": True})
        yield made


@pytest.fixture
async def clients(server: HookServer) -> AsyncIterator[HookClients]:
    made = HookClients(Resolver(server.port))
    yield made
    await made.close()


def service(server: HookServer, name: str = "hook") -> ClientConfig:
    return ClientConfig.parse({"service": {"namespace": "n", "name": name}, "caBundle": server.ca_bundle})


async def failure(clients: HookClients, config: ClientConfig, timeout: float = 5.0, **more: Any) -> str:
    with pytest.raises(HookError) as caught:
        await clients.post(config, BODY, timeout, {"timeout": "5s"}, **more)
    return str(caught.value)


async def test_services_and_urls_are_asked_on_kept_connections(server: HookServer, clients: HookClients) -> None:
    for _ in range(2):
        assert await clients.post(service(server), BODY, 5.0, {"timeout": "5s"}) == b'{"ok": true}'
    assert await clients.post(ClientConfig.parse(server.client_config("")), BODY, 5.0, {}) == b'{"ok": true}'
    first, second, third = server.asked
    assert first.connection == second.connection != third.connection
    assert (first.headers["Host"], first.query, third.query) == ("hook.n.svc:443", {"timeout": "5s"}, {})
    assert first.headers["User-Agent"] == "kube-apiserver-admission"
    assert first.review == {"kind": "AdmissionReview"}


async def test_a_kept_connection_that_the_server_closed_is_no_failure(server: HookServer, clients: HookClients) -> None:
    server.on("/", lambda review: None if len(server.asked) == 2 else {})
    for _ in range(2):
        await clients.post(service(server), BODY, 5.0, {})
    assert len(server.asked) == 3


async def test_a_server_that_never_answers_is_not_asked_for_ever(server: HookServer, clients: HookClients) -> None:
    server.on("/", lambda review: None)
    assert (await failure(clients, service(server))).endswith(": EOF")
    assert len(server.asked) == 1


async def test_only_the_given_authority_is_trusted(server: HookServer, clients: HookClients) -> None:
    stranger = replace(service(server), ca_bundle=x509.new_ca("stranger").certificate)
    prefix = 'Post "https://hook.n.svc:443/?timeout=5s": tls: failed to verify certificate: x509: '
    assert await failure(clients, stranger) == f"{prefix}certificate signed by unknown authority"
    assert await failure(clients, replace(service(server), ca_bundle=b"")) == f"{prefix}certificate signed by unknown authority"
    misnamed = await failure(clients, service(server, "other"))
    assert misnamed.endswith("x509: certificate is not valid for other.n.svc")
    with pytest.raises(UnusableConfigError, match="unable to load root certificates: unable to parse bytes as PEM block"):
        await clients.post(replace(service(server), ca_bundle=b"no PEM"), BODY, 5.0, {})
    assert not server.asked


async def test_why_nobody_answered(server: HookServer, clients: HookClients) -> None:
    where = 'Post "https://missing.n.svc:443/?timeout=5s"'
    assert await failure(clients, service(server, "missing")) == f'{where}: service "missing" not found'
    port = free_port()
    closed = ClientConfig.parse({"url": f"https://127.0.0.1:{port}/", "caBundle": server.ca_bundle})
    where = f'Post "https://127.0.0.1:{port}/?timeout=5s"'
    assert await failure(clients, closed) == f"{where}: dial tcp 127.0.0.1:{port}: connect: connection refused"

    async def slow(review: dict[str, Any]) -> web.StreamResponse:
        await asyncio.sleep(5)
        return web.Response()

    server.on("/slow", slow)
    answer = await failure(clients, ClientConfig.parse(server.client_config("/slow")), 0.1)
    assert answer.endswith("context deadline exceeded")


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (302, "the server responded with the status code 302 but did not return more information"),
        (404, "the server could not find the requested resource"),
        (500, 'an error on the server ("unknown") has prevented the request from succeeding'),
    ],
)
async def test_answers_that_are_no_success(server: HookServer, clients: HookClients, status: int, why: str) -> None:
    """A redirect is not followed, and what the body says stays with us: it may be of a server that the asker cannot reach."""
    server.on("/moved", lambda review: web.Response(status=status, headers={"Location": "/"}, text="secret"))
    with pytest.raises(HookError) as caught:
        await clients.post(ClientConfig.parse(server.client_config("/moved")), BODY, 5.0, {})
    assert (str(caught.value), caught.value.code) == (why, status)
    assert [each.path for each in server.asked] == ["/moved"]


async def test_answers_are_read_up_to_a_limit(server: HookServer, clients: HookClients) -> None:
    server.on("/large", lambda review: web.Response(body=b"x" * 5000))
    config = ClientConfig.parse(server.client_config("/large"))
    assert len(await clients.post(config, BODY, 5.0, {}, limit=5000)) == 5000
    assert await failure(clients, config, limit=4999) == "the answer is larger than 4999 bytes"


async def test_servers_that_want_to_know_who_asks(tmp_path: Path) -> None:
    ca = x509.new_ca("clients")
    x509.issue(ca, x509.Request("apiserver", usages=(x509.CLIENT,))).save(tmp_path / "crt", tmp_path / "key")
    user = {"client-certificate": "crt", "client-key": "key", "token": "secret"}
    (tmp_path / "config").write_text(yaml.safe_dump({"users": [{"name": "*.n.svc", "user": user}]}))
    async with hook_server("hook.n.svc", client_ca=ca.certificate) as server:
        server.on("/", lambda review: {})
        clients = HookClients(Resolver(server.port), Users.load(tmp_path / "config"))
        await clients.post(service(server), BODY, 5.0, {})
        await clients.close()
        (asked,) = server.asked
        assert asked.certificate is not None
        assert asked.certificate["subject"] == ((("commonName", "apiserver"),),)
        assert asked.headers["Authorization"] == "Bearer secret"
        anonymous = HookClients(Resolver(server.port))
        with pytest.raises(HookError):
            await anonymous.post(service(server), BODY, 5.0, {})
        await anonymous.close()

"""Certificate files that change under a running API server: its own, and those of the authorities it believes."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from component import x509
from component.dynamic_certificates import NamedPair
from component.tls import profile
from controlplane.apiserver.assembly import server as assembly
from controlplane.apiserver.config import FrontProxy
from tests.support.apiserver import TestServer, prepare, running_apiserver

REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at the files ten times a second, not every ten seconds."""
    real = assembly.watch
    monkeypatch.setattr(assembly, "watch", lambda clock, *watched: real(clock, *watched, period=0.1))


async def whoami(server: TestServer, context: ssl.SSLContext, **headers: str) -> str:
    """The user, or the status."""
    where = f"{server.url}/apis/authentication.k8s.io/v1/selfsubjectreviews"
    async with server.session.post(where, json=REVIEW, ssl=context, headers={**headers, "Connection": "close"}) as answer:
        body = await answer.json(content_type=None)
        return str(body["status"]["userInfo"]["username"]) if answer.status == 201 else str(answer.status)


def client(folder: Path, ca: x509.KeyPair, name: str, trusted: Path) -> ssl.SSLContext:
    x509.issue(ca, x509.Request(name, usages=(x509.CLIENT,))).save(folder / f"{name}.crt", folder / f"{name}.key")
    context = ssl.create_default_context(cafile=str(trusted))
    context.load_cert_chain(folder / f"{name}.crt", folder / f"{name}.key")
    return context


async def becomes(ask: Callable[[], Awaitable[str]], wanted: str) -> None:
    async with asyncio.timeout(20):
        while await ask() != wanted:  # noqa: ASYNC110 - nothing tells us when
            await asyncio.sleep(0.05)


async def test_client_authorities_come_and_go_without_a_restart(tmp_path: Path) -> None:
    _, ca = prepare(tmp_path, "memory")
    trusted = tmp_path / "trusted.crt"
    trusted.write_bytes(ca.certificate)
    async with running_apiserver(directory=tmp_path) as server:
        other = x509.new_ca("next")
        old, new = client(tmp_path, ca, "old", trusted), client(tmp_path, other, "new", trusted)
        assert await whoami(server, old) == "old"
        assert await whoami(server, new) == "401"
        (tmp_path / "ca.crt").write_bytes(ca.certificate + other.certificate)
        await becomes(lambda: whoami(server, new), "new")
        assert await whoami(server, old) == "old"
        (tmp_path / "ca.crt").write_bytes(other.certificate)
        await becomes(lambda: whoami(server, old), "401")
        assert await whoami(server, new) == "new"


async def test_a_front_proxys_authority_is_followed_too(tmp_path: Path) -> None:
    config, _ = prepare(tmp_path, "memory")
    first, second = x509.new_ca("first"), x509.new_ca("second")
    (tmp_path / "proxy-ca.crt").write_bytes(first.certificate)
    identity = replace(config.identity, front_proxy=FrontProxy(tmp_path / "proxy-ca.crt"))
    async with running_apiserver(directory=tmp_path, identity=identity) as server:
        proxy = client(tmp_path, second, "proxy", tmp_path / "ca.crt")
        assert await whoami(server, proxy, **{"X-Remote-User": "jane"}) == "401"
        (tmp_path / "proxy-ca.crt").write_bytes(second.certificate)
        await becomes(lambda: whoami(server, proxy, **{"X-Remote-User": "jane"}), "jane")


async def test_a_renewed_serving_certificate_is_shown(tmp_path: Path) -> None:
    config, ca = prepare(tmp_path, "memory")
    named = x509.Request("named", dns_names=("named.example.com",))
    x509.issue(ca, named).save(tmp_path / "named.crt", tmp_path / "named.key")
    serving = replace(
        config.serving, named=(NamedPair(tmp_path / "named.crt", tmp_path / "named.key"),), tls=profile("VersionTLS13")
    )
    async with running_apiserver(directory=tmp_path, serving=serving) as server:

        async def shown(name: str = "localhost") -> str:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=server.tls, server_hostname=name)
            connection = writer.get_extra_info("ssl_object")
            assert connection.version() == "TLSv1.3"
            found = x509.parse(connection.getpeercert(binary_form=True)).common_name
            writer.close()
            return found

        assert await shown() == "kube-apiserver"
        assert await shown("named.example.com") == "named"
        renewed = x509.Request("renewed", dns_names=("localhost",), ip_addresses=("127.0.0.1",))
        x509.issue(ca, renewed).save(tmp_path / "apiserver.crt", tmp_path / "apiserver.key")
        await becomes(shown, "renewed")

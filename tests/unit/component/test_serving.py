import asyncio

import aiohttp
import pytest
from aiohttp import web

from component import serving, tls, x509
from component.dynamic_certificates import Files, ServingCertificates
from component.errors import OperatorError
from component.healthz import Health, health_and_metrics_handler
from component.metrics import Registry


async def fetch(url: str, **options) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url, **options) as response:
        return response.status, await response.text()


async def test_health_and_metrics_are_served():
    registry = Registry()
    registry.counter("things_total", "Things.", ["kind"]).labels("a").inc()
    async with serving.listening(health_and_metrics_handler(Health(), registry), "127.0.0.1", 0) as address:
        assert await fetch(address.url + "/healthz") == (200, "ok")
        assert (await fetch(address.url + "/nope"))[0] == 404
        status, text = await fetch(address.url + "/metrics")
    assert status == 200
    assert 'things_total{kind="a"} 1.0' in text
    assert "process_resident_memory_bytes" in text
    assert "_created" not in text


async def test_a_busy_port_is_named():
    async def handle(request):
        return web.Response()

    async with serving.listening(handle, "127.0.0.1", 0) as address:
        with pytest.raises(OperatorError, match=f"cannot listen on 127.0.0.1:{address.port}"):
            async with serving.listening(handle, "127.0.0.1", address.port):
                pass


async def test_draining_lets_running_requests_finish():
    entered, release = asyncio.Event(), asyncio.Event()

    async def handle(request):
        entered.set()
        await release.wait()
        return web.Response(text="done")

    async def server(ready: asyncio.Future) -> None:
        await serving.serve(handle, "127.0.0.1", 0, ready=ready.set_result, on_drain=release.set)

    ready = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(server(ready))
    address = await ready
    request = asyncio.ensure_future(fetch(address.url))
    await entered.wait()
    task.cancel()
    assert await request == (200, "done")
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    root = tmp_path_factory.mktemp("pki")
    ca = x509.new_ca("test-ca")
    ca.save(root / "ca.crt", root / "ca.key")
    for name in ("one", "two"):
        request = x509.Request(name, ["group"], ["localhost"], ["127.0.0.1"], (x509.SERVER, x509.CLIENT))
        x509.issue(ca, request).save(root / f"{name}.crt", root / f"{name}.key")
    return root


async def whoami(request: web.BaseRequest) -> web.Response:
    certificate = request.transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return web.Response(text=x509.parse(certificate).common_name if certificate else "nobody")


async def test_clients_may_come_with_or_without_a_certificate(pki):
    context = tls.server_context(pki / "one.crt", pki / "one.key", pki / "ca.crt")
    async with serving.listening(whoami, "127.0.0.1", 0, context) as address:
        known = tls.client_context(ca_file=pki / "ca.crt", certificate=pki / "two.crt", key=pki / "two.key")
        assert await fetch(address.url, ssl=known) == (200, "two")
        assert await fetch(address.url, ssl=tls.client_context(ca_file=pki / "ca.crt")) == (200, "nobody")


async def test_changed_files_count_for_the_next_connection(pki, tmp_path):
    def install(name: str) -> None:
        for kind in ("crt", "key"):
            (tmp_path / f"server.{kind}").write_bytes((pki / f"{name}.{kind}").read_bytes())

    async def server_name(port: int) -> str:
        context = tls.client_context(ca_file=pki / "ca.crt")
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        found = x509.parse(writer.get_extra_info("ssl_object").getpeercert(binary_form=True)).common_name
        writer.close()
        return found

    install("one")
    files = ServingCertificates(Files(tmp_path / "server.crt", tmp_path / "server.key", (pki / "ca.crt",)))
    async with serving.listening(whoami, "127.0.0.1", 0, files.context) as address:
        assert await server_name(address.port) == "one"
        assert not files.reload_if_changed()
        install("two")
        assert files.reload_if_changed()
        assert await server_name(address.port) == "two"
        (tmp_path / "server.key").write_text("broken")
        assert not files.reload_if_changed()
        assert await server_name(address.port) == "two"


def test_unusable_files_are_named(pki, tmp_path):
    with pytest.raises(ValueError, match=r"cannot use certificate .*nope\.crt"):
        tls.server_context(tmp_path / "nope.crt", pki / "one.key")
    with pytest.raises(ValueError, match="cannot use CA certificates from inline data"):
        tls.client_context(ca_data="garbage")

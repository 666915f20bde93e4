import asyncio
import contextlib

import orjson
import pytest
from aiohttp import web

from client import kubeconfig
from client.credentials import Credentials
from client.kubeconfig import Config, ExecPlugin, KubeconfigError
from client.transport import AioTransport, Request, TransportError
from component import serving, tls, x509
from component.clock import FakeClock
from component.process import FakeRunner


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    root = tmp_path_factory.mktemp("pki")
    ca = x509.new_ca("test-ca")
    ca.save(root / "ca.crt", root / "ca.key")
    request = x509.Request("server", (), ["localhost"], ["127.0.0.1"])
    x509.issue(ca, request).save(root / "server.crt", root / "server.key")
    x509.issue(ca, x509.Request("me", ["team"], usages=[x509.CLIENT])).save(root / "me.crt", root / "me.key")
    return root


async def echo(request: web.BaseRequest) -> web.StreamResponse:
    """Tells the client what was received; ``/stream`` and ``/drop`` answer in pieces."""
    if request.path in ("/stream", "/drop"):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        if request.path == "/drop":
            request.transport.abort()
        await response.write(b"two\n")
        return response
    socket = request.transport.get_extra_info("ssl_object")
    certificate = socket.getpeercert(binary_form=True) if socket else None
    told = {
        "path": request.raw_path if hasattr(request, "raw_path") else request.path_qs,
        "method": request.method,
        "headers": {key.lower(): value for key, value in request.headers.items()},
        "body": (await request.read()).decode(),
        "user": x509.parse(certificate).common_name if certificate else None,
    }
    return web.Response(body=orjson.dumps(told), status=418 if request.path == "/teapot" else 200)


@contextlib.asynccontextmanager
async def talking(pki=None, clock=None, **config):
    context = tls.server_context(pki / "server.crt", pki / "server.key", pki / "ca.crt") if pki else None
    async with serving.listening(echo, "127.0.0.1", 0, context) as address:
        transport = AioTransport(Config(server=address.url, **config), "pybernetes-test/1", clock)
        try:
            yield transport
        finally:
            await transport.close()


async def told(transport, request=Request("GET", "/")):  # noqa: B008 - frozen
    return orjson.loads(await (await transport.send(request)).read())


async def test_requests_arrive_as_they_were_made():
    async with talking() as transport:
        got = await told(transport, Request("PATCH", "/a%2Fb?x=1+2&y=%C3%A4", {"Content-Type": "x/y"}, b"body"))
    assert (got["method"], got["path"], got["body"]) == ("PATCH", "/a%2Fb?x=1+2&y=%C3%A4", "body")
    assert got["headers"]["user-agent"] == "pybernetes-test/1"
    assert got["headers"]["content-type"] == "x/y"
    assert "authorization" not in got["headers"]


async def test_any_status_is_an_answer():
    async with talking() as transport:
        response = await transport.send(Request("GET", "/teapot"))
        assert response.status == 418
        response.close()


@pytest.mark.parametrize("inline", [True, False], ids=["inline", "files"])
async def test_a_client_certificate_is_shown(pki, inline):
    if inline:
        data = {"ca_data": "ca.crt", "certificate_data": "me.crt", "key_data": "me.key"}
        config = {key: (pki / name).read_bytes() for key, name in data.items()}
    else:
        config = {"ca_file": str(pki / "ca.crt"), "certificate_file": str(pki / "me.crt"), "key_file": str(pki / "me.key")}
    async with talking(pki, **config) as transport:
        assert (await told(transport))["user"] == "me"


async def test_a_server_of_another_ca_is_not_trusted(pki):
    async with talking(pki, ca_data=x509.new_ca("other").certificate) as transport:
        with pytest.raises(TransportError, match=r"cannot reach https://127\.0\.0\.1") as caught:
            await transport.send(Request("GET", "/"))
        assert not caught.value.sent


async def test_a_server_may_be_trusted_blindly(pki):
    async with talking(pki, insecure=True) as transport:
        assert (await told(transport))["user"] is None


@pytest.mark.parametrize(
    ("config", "header"),
    [({"token": "abc"}, "Bearer abc"), ({"username": "u", "password": "p"}, "Basic dTpw")],
    ids=["token", "password"],
)
async def test_credentials_go_into_the_header(config, header):
    async with talking(**config) as transport:
        assert (await told(transport))["headers"]["authorization"] == header


async def test_a_token_file_is_read_again_after_a_minute(tmp_path):
    path, clock = tmp_path / "token", FakeClock()
    path.write_text("one\n")
    async with talking(clock=clock, token_file=str(path)) as transport:

        async def token():
            return (await told(transport))["headers"]["authorization"]

        assert await token() == "Bearer one"
        path.write_text("two")
        assert await token() == "Bearer one"
        await clock.advance(61)
        assert await token() == "Bearer two"
        path.unlink()
        await clock.advance(61)
        assert await token() == "Bearer two"


async def test_a_missing_token_file_is_named(tmp_path):
    async with talking(token_file=str(tmp_path / "none")) as transport:
        with pytest.raises(KubeconfigError, match="cannot read token file"):
            await transport.send(Request("GET", "/"))


async def test_a_changed_client_certificate_is_taken_up_within_a_minute(pki, tmp_path):
    clock = FakeClock()

    def install(name):
        ca = x509.KeyPair.load(pki / "ca.crt", pki / "ca.key")
        pair = x509.issue(ca, x509.Request(name, usages=[x509.CLIENT]))
        pair.save(tmp_path / "crt", tmp_path / "key")

    install("one")
    files = {"certificate_file": str(tmp_path / "crt"), "key_file": str(tmp_path / "key"), "ca_file": str(pki / "ca.crt")}
    async with talking(pki, clock, **files) as transport:
        assert (await told(transport))["user"] == "one"
        install("two")
        assert (await told(transport))["user"] == "one"
        await clock.advance(61)
        assert (await told(transport))["user"] == "two"
        (tmp_path / "key").write_text("half")
        await clock.advance(61)
        assert (await told(transport))["user"] == "two"


def credentials(clock, *answers, env=None):
    """Credentials from a program that prints one answer after the other."""
    outputs = iter(answers)
    runner = FakeRunner(lambda argv, stdin: orjson.dumps({"kind": "ExecCredential", "status": next(outputs)}))
    return Credentials(Config("https://h", exec_plugin=ExecPlugin("login", ("-x",))), clock, runner), runner


async def test_a_program_is_run_once_until_what_it_printed_expires_or_is_refused():
    clock = FakeClock()
    first = {"token": "one", "expirationTimestamp": "2026-01-01T00:01:00Z"}
    found, runner = credentials(clock, first, {"token": "two"}, {"token": "three"})
    assert [await found.header() for _ in range(2)] == ["Bearer one", "Bearer one"]
    assert runner.calls[0][0] == ("login", "-x")
    await clock.advance(61)
    assert [await found.header() for _ in range(2)] == ["Bearer two", "Bearer two"]
    found.refused()
    assert await found.header() == "Bearer three"


async def test_a_program_may_print_a_certificate():
    found, _ = credentials(FakeClock(), {"clientCertificateData": "C", "clientKeyData": "K"})
    assert await found.header() is None
    config = await found.completed()
    assert (config.certificate_data, config.key_data) == (b"C", b"K")


async def test_a_program_that_prints_nothing_useful_is_named():
    found, _ = credentials(FakeClock(), {})
    with pytest.raises(KubeconfigError, match="login printed neither a token nor"):
        await found.header()


async def test_nobody_listening_is_an_unsent_request():
    async with serving.listening(echo, "127.0.0.1", 0) as address:
        pass
    transport = AioTransport(Config(server=address.url), "x")
    with pytest.raises(TransportError, match="cannot reach") as caught:
        await transport.send(Request("POST", "/"))
    assert not caught.value.sent
    await transport.close()


async def test_streams_arrive_in_chunks_and_end():
    async with talking() as transport:
        response = await transport.send(Request("GET", "/stream", stream=True))
        assert b"".join([chunk async for chunk in response.chunks()]) == b"one\ntwo\n"


async def test_a_stream_that_breaks_off_says_so():
    async with talking() as transport:
        response = await transport.send(Request("GET", "/drop", stream=True))
        with pytest.raises(TransportError, match="broke off"):
            [chunk async for chunk in response.chunks()]


async def test_a_silent_server_is_given_up(pki):
    async def silent(request):
        await asyncio.sleep(5)
        return web.Response()

    async with serving.listening(silent, "127.0.0.1", 0, drain_seconds=0) as address:
        transport = AioTransport(Config(server=address.url), "x")
        with pytest.raises(TransportError, match="no answer in time") as caught:
            await transport.send(Request("GET", "/", timeout=0.05))
        assert caught.value.sent
        await transport.close()


async def test_a_closed_client_stays_closed():
    async with talking() as transport:
        await told(transport)
        await transport.close()
        with pytest.raises(TransportError, match="closed") as caught:
            await told(transport)
        assert not caught.value.sent


async def test_a_kubeconfig_written_anew_is_taken_up(pki, tmp_path):
    """`certs renew` replaces the certificate inside the file; the daemon that uses it goes on."""
    clock, path = FakeClock(), tmp_path / "kubeconfig"
    ca = x509.KeyPair.load(pki / "ca.crt", pki / "ca.key")

    def install(user: str, server: str) -> None:
        pair = x509.issue(ca, x509.Request(user, usages=[x509.CLIENT]))
        kubeconfig.save(kubeconfig.build(server, ca=ca.certificate, certificate=pair.certificate, key=pair.key), path)

    context = tls.server_context(pki / "server.crt", pki / "server.key", pki / "ca.crt")
    async with serving.listening(echo, "127.0.0.1", 0, context) as address:
        install("one", address.url)
        transport = AioTransport(kubeconfig.load(path), "pybernetes-test/1", clock)
        assert (await told(transport))["user"] == "one"
        install("two", "https://127.0.0.1:1")
        assert (await told(transport))["user"] == "one"
        await clock.advance(11)
        assert (await told(transport))["user"] == "two", "and the address counts as it was"
        path.write_text("kind: Con")
        await clock.advance(11)
        assert (await told(transport))["user"] == "two"
        path.unlink()
        await clock.advance(11)
        assert (await told(transport))["user"] == "two"
        await transport.close()


async def test_a_stream_ends_and_a_request_under_way_does_not_when_the_certificate_changes(pki, tmp_path):
    """A watch that stayed on the old pool would never hear of anything again."""
    clock, path, release = FakeClock(), tmp_path / "kubeconfig", asyncio.Event()
    ca = x509.KeyPair.load(pki / "ca.crt", pki / "ca.key")

    async def slow(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/watch":
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"one")
            await asyncio.sleep(3600)
        if request.path == "/slow":
            await release.wait()
        return web.Response(text="done")

    def install(user: str, server: str) -> None:
        pair = x509.issue(ca, x509.Request(user, usages=[x509.CLIENT]))
        kubeconfig.save(kubeconfig.build(server, ca=ca.certificate, certificate=pair.certificate, key=pair.key), path)

    context = tls.server_context(pki / "server.crt", pki / "server.key", pki / "ca.crt")
    async with serving.listening(slow, "127.0.0.1", 0, context, drain_seconds=0.1) as address:
        install("one", address.url)
        transport = AioTransport(kubeconfig.load(path), "pybernetes-test/1", clock)
        watch = await transport.send(Request("GET", "/watch", stream=True, timeout=None))
        chunks = watch.chunks()
        assert await anext(chunks) == b"one"
        waiting = asyncio.ensure_future(anext(chunks))
        under_way = asyncio.ensure_future(transport.send(Request("GET", "/slow")))
        await asyncio.sleep(0.05)
        install("two", address.url)
        await clock.advance(11)
        await transport.send(Request("GET", "/"))
        with pytest.raises(TransportError, match="broke off"):
            async with asyncio.timeout(2):
                await waiting
        release.set()
        assert await (await under_way).read() == b"done"
        await transport.close()

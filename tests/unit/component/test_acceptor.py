"""Who is let in when, and what happens when there is no more room."""

import asyncio
import contextlib
import socket

import aiohttp
import pytest
from aiohttp import web

from component import acceptor, serving


@contextlib.asynccontextmanager
async def door(monkeypatch: pytest.MonkeyPatch, most: int):
    async def handle(request):
        return web.Response(text="hello")

    monkeypatch.setattr(acceptor, "most_connections", lambda: most)
    async with serving.listening(handle, "127.0.0.1", 0) as address:
        yield address


async def hello(address) -> str:
    async with aiohttp.ClientSession() as session, session.get(address.url) as answer:
        return await answer.text()


async def test_a_crowd_gets_in(monkeypatch: pytest.MonkeyPatch):
    async with door(monkeypatch, 1000) as address:
        assert await asyncio.gather(*(hello(address) for _ in range(100))) == ["hello"] * 100


async def test_a_full_house_waits_until_somebody_leaves(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    async with door(monkeypatch, 3) as address:
        inside = [await asyncio.open_connection(address.host, address.port) for _ in range(3)]
        await asyncio.sleep(0.05)
        outside = asyncio.ensure_future(hello(address))
        done, _ = await asyncio.wait([outside], timeout=0.3)
        assert not done
        inside[0][1].close()
        assert await asyncio.wait_for(outside, 5) == "hello"
        for _, writer in inside[1:]:
            writer.close()
    assert caplog.text.count("no room for more connections") == 1


async def test_who_says_nothing_in_the_handshake_holds_up_nobody(monkeypatch: pytest.MonkeyPatch, tmp_path):
    import ssl

    from component import x509
    from component.tls import server_context

    x509.new_ca("test").save(tmp_path / "ca.crt", tmp_path / "ca.key")
    wanted = x509.Request("server", ip_addresses=("127.0.0.1",))
    x509.issue(x509.KeyPair.load(tmp_path / "ca.crt", tmp_path / "ca.key"), wanted).save(tmp_path / "s.crt", tmp_path / "s.key")
    tls = server_context(tmp_path / "s.crt", tmp_path / "s.key")

    async def handle(request):
        return web.Response(text="hello")

    async with serving.listening(handle, "127.0.0.1", 0, tls) as address:
        silent = [socket.create_connection((address.host, address.port)) for _ in range(3 * acceptor.GREETING)]
        try:
            client = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
            async with aiohttp.ClientSession() as session, session.get(address.url, ssl=client) as answer:
                assert await answer.text() == "hello"
        finally:
            for each in silent:
                each.close()

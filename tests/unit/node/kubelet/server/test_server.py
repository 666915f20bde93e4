"""The whole server over real sockets; only the runtime's commands are pretended."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from component.streams import channels, upgrade
from component.streams.session import Session
from tests.support.kubelet import Running, running_kubelet

GOOD = {"Authorization": "Bearer good"}


@pytest.fixture
async def kubelet() -> AsyncIterator[Running]:
    async with running_kubelet() as running:
        yield running


@pytest.fixture
async def http(kubelet: Running) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(kubelet.url, headers=GOOD) as session:
        yield session


async def get(http: aiohttp.ClientSession, path: str, **headers: str) -> tuple[int, str]:
    async with http.get(path, headers=headers) as response:
        return response.status, await response.text()


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("", 401),
        ("Bearer bad", 401),
        ("Basic x", 401),
        ("Bearer weak", 403),
    ],
)
async def test_strangers_stay_outside(kubelet: Running, header: str, status: int) -> None:
    async with aiohttp.ClientSession(kubelet.url, headers={"Authorization": header} if header else {}) as session:
        for path in ("/pods", "/exec/ns/p/c?command=cat&output=1", "/healthz", "/containerLogs/ns/p/c"):
            assert (await get(session, path))[0] == status


async def test_reviews_are_remembered(kubelet: Running, http: aiohttp.ClientSession) -> None:
    for _ in range(3):
        assert (await get(http, "/pods"))[0] == 200
    assert [review["kind"] for review in kubelet.reviews.asked] == ["TokenReview", "SubjectAccessReview"]
    attributes = kubelet.reviews.asked[1]["spec"]["resourceAttributes"]
    expected = {"verb": "get", "version": "v1", "resource": "nodes", "subresource": "pods", "name": "node-1"}
    assert attributes == expected


@pytest.mark.parametrize(
    "path", ["/exec/ns/p/c?command=cat&output=1", "/attach/ns/p/c?output=1", "/portForward/ns/p", "/exec/ns/p/u/c?output=1"]
)
async def test_a_handshake_by_get_needs_the_right_to_create(kubelet: Running, http: aiohttp.ClientSession, path: str) -> None:
    await get(http, path)
    assert kubelet.reviews.asked[1]["spec"]["resourceAttributes"]["verb"] == "create"


async def test_small_pages(kubelet: Running, http: aiohttp.ClientSession) -> None:
    assert await get(http, "/healthz") == (200, "ok")
    kubelet.facade.reasons.append("PLEG is not healthy")
    assert await get(http, "/healthz") == (500, "PLEG is not healthy")
    assert '"kind":"PodList"' in (await get(http, "/pods"))[1]
    assert (await get(http, "/configz"))[1] == '{"kubeletconfig":{"maxPods":110}}'
    assert "kubelet_http_requests_total" in (await get(http, "/metrics"))[1]
    assert (await get(http, "/stats/summary"))[0] == 503
    assert (await get(http, "/nothing"))[0] == 404


async def test_logs(kubelet: Running, http: aiohttp.ClientSession, tmp_path: Path) -> None:
    path = "/containerLogs/ns/p/c"
    message = 'container "c" in pod "p" is waiting to start: ContainerCreating'
    assert await get(http, path) == (400, message)
    kubelet.facade.log = tmp_path / "0.log"
    kubelet.facade.log.write_text("2026-11-30T11:29:38Z stdout F a\n2026-11-30T11:29:38Z stdout F b\n")
    assert await get(http, path) == (200, "a\nb\n")
    assert await get(http, f"{path}?tailLines=1&follow=true") == (200, "b\n")


async def test_followers_that_leave_do_not_stay(
    kubelet: Running, http: aiohttp.ClientSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kubelet.facade.log = tmp_path / "0.log"
    kubelet.facade.log.write_text("2026-11-30T11:29:38Z stdout F a\n")
    kubelet.facade.running = True
    async with http.get("/containerLogs/ns/p/c?follow=true") as response:
        assert await response.content.readany() == b"a\n"
        response.close()
    for text in ("b", "c"):
        with kubelet.facade.log.open("a") as file:
            file.write(f"2026-11-30T11:29:38Z stdout F {text}\n")
        await asyncio.sleep(0.05)
    assert not caplog.records
    # the fixture would now wait a second for the handler and complain about what it leaves


async def test_websocket_exec(http: aiohttp.ClientSession) -> None:
    async with http.ws_connect("/exec/ns/p/c?command=cat&input=1&output=1", protocols=(channels.V5,)) as socket:
        await socket.send_bytes(b"\0hi\n")
        await socket.send_bytes(b"\xff\0")
        assert [message.data async for message in socket] == [b"\x01hi\n", b'\x03{"metadata":{},"status":"Success"}']


async def test_spdy_exec_passes_through(kubelet: Running) -> None:
    headers = [*upgrade.spdy_headers([channels.V4, "v3.channel.k8s.io"]), ("Authorization", "Bearer good")]
    answer = await upgrade.connect("POST", f"{kubelet.url}/exec/ns/p/c?command=cat&input=1&output=1", headers)
    assert isinstance(answer, upgrade.Upgraded)
    assert answer.headers["x-stream-protocol-version"] == channels.V4
    session = Session(client=True)
    answer.duplex.switch(session)
    streams = await channels.open_streams(session, channels.Options(stdin=True, stdout=True))
    await streams[channels.Role.STDIN].write(b"hi\n")
    streams[channels.Role.STDIN].close_write()
    assert await streams[channels.Role.STDOUT].read_all() == b"hi\n"
    assert await streams[channels.Role.ERROR].read_all() == channels.success()
    session.close()


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/exec/ns/p/c?command=cat", 400, "you must specify at least 1 of stdin, stdout, stderr"),
        ("/exec/ns/p/c?command=cat&output=1", 400, "Upgrade request required"),
        ("/exec/ns/p/missing?command=cat&output=1", 404, 'pods "p" not found'),
        ("/portForward/ns/p", 400, "Upgrade request required"),
    ],
)
async def test_requests_that_cannot_stream(http: aiohttp.ClientSession, path: str, status: int, text: str) -> None:
    if path.startswith("/portForward"):
        path += "?port=80"
    assert await get(http, path) == (status, text)


async def test_refusal_of_the_runtime_is_relayed(kubelet: Running) -> None:
    headers = [*upgrade.spdy_headers([channels.V4]), ("Authorization", "Bearer good")]
    answer = await upgrade.connect("POST", f"{kubelet.url}/exec/ns/p/c?command=refuse&output=1", headers)
    assert isinstance(answer, upgrade.Refusal)
    assert (answer.status, answer.body) == (404, b'container not found ("c")')


async def test_run_answers_the_output(http: aiohttp.ClientSession) -> None:
    async with http.post("/run/ns/p/c?cmd=fail") as response:
        assert response.status == 500
        assert "exit status 3" in await response.text()


async def test_port_forward_by_websocket(http: aiohttp.ClientSession) -> None:
    async with http.ws_connect("/portForward/ns/p?port=80", protocols=(channels.V4,)) as socket:
        assert [await socket.receive_bytes() for _ in range(2)] == [b"\0\x50\0", b"\x01\x50\0"]
        await socket.send_bytes(b"\0ping")
        assert await socket.receive_bytes() == b"\x0080:ping"


async def test_unknown_protocol_is_refused(http: aiohttp.ClientSession) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as caught:
        await http.ws_connect("/exec/ns/p/c?command=cat&output=1", protocols=("chat",))
    assert caught.value.status == 403


async def test_a_runtime_that_fails_is_a_500_with_its_words(kubelet: Running, http: aiohttp.ClientSession) -> None:
    class Broken:
        async def exec(self, *arguments: object, **options: object) -> str:
            raise RuntimeError("the runtime is on fire")

    kubelet.facade.streaming = Broken()  # type: ignore[assignment]
    assert await get(http, "/exec/ns/p/c?command=cat&output=1") == (500, "Internal error occurred: the runtime is on fire")

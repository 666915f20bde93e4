"""What happens to connections: HEAD, too much at once, clients that go away, and a server that stops."""

import asyncio
import json
from typing import Any

import pytest

from controlplane.apiserver import server as server_module
from tests.support.apiserver import TestServer, running_apiserver

MAPS = "/api/v1/namespaces/default/configmaps"


async def test_head_answers_like_get_without_the_body(server: TestServer) -> None:
    got = await server.request("GET", MAPS)
    headed = await server.request("HEAD", MAPS)
    assert (headed.status, headed.body) == (200, b"")
    assert headed.headers["Content-Length"] == got.headers["Content-Length"]


async def test_every_answer_names_its_audit_id(server: TestServer) -> None:
    answer = await server.request("GET", MAPS, headers={"Audit-ID": "my-own"})
    assert answer.headers["Audit-Id"] == "my-own"
    assert (await server.request("GET", "/nonsense")).headers["Audit-Id"]


async def raw(server: TestServer, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=server.tls)
    try:
        writer.write(data)
        await writer.drain()
        return await asyncio.wait_for(reader.read(64 * 1024), 5)
    finally:
        writer.close()


@pytest.mark.parametrize(
    "data",
    [b"\x00\x01\x02\x03\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n"],
    ids=["binary", "no-path", "negative-length"],
)
async def test_nonsense_on_the_wire_gets_a_400(server: TestServer, data: bytes) -> None:
    assert b" 400 " in (await raw(server, data)).split(b"\r\n")[0]
    assert (await server.request("GET", "/readyz")).status == 200


async def test_a_head_has_an_end(server: TestServer) -> None:
    """Each line is within its bound; there are too many bytes of them, or too many lines."""
    line = b"X-A: " + b"a" * 60_000 + b"\r\n"
    assert b" 431 " in (await raw(server, b"GET / HTTP/1.1\r\n" + line * 20)).split(b"\r\n")[0]
    assert b" 400 " in (await raw(server, b"GET / HTTP/1.1\r\n" + b"X-A: b\r\n" * 200)).split(b"\r\n")[0]
    assert (await server.request("GET", "/readyz")).status == 200


@pytest.mark.parametrize("sent", [b"", b"GET /readyz HTTP/1.1\r\nHost:"])
async def test_a_head_that_does_not_come_ends_the_connection(
    server: TestServer, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(server_module, "HEAD_SECONDS", 0.3)
    assert await raw(server, sent) == b""


async def test_a_quiet_connection_may_stay_once_it_has_asked(server: TestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "HEAD_SECONDS", 0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=server.tls)
    for _ in range(2):
        for piece in (b"GET /readyz HTTP/1.1\r\n", b"Host: x\r\n\r\n"):  # a head in two pieces is one
            writer.write(piece)
            await asyncio.sleep(0.05)
        assert b" 200 " in await reader.readuntil(b"ok")
        await asyncio.sleep(0.5)
    writer.close()


async def test_who_reads_too_slowly_loses_the_answer_and_the_seat() -> None:
    """The list is larger than what the kernel holds for the connection."""
    async with running_apiserver(serving={"request_timeout": 1.0}) as server:
        for number in range(40):
            await server.request("POST", MAPS, {"metadata": {"name": f"m{number}"}, "data": {"a": "x" * 500_000}})
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=server.tls, limit=1024)
        writer.write(f"GET {MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.admin_token}\r\n\r\n".encode())
        dump = "/debug/api_priority_and_fairness/dump_requests?includeRequestDetails=1"
        try:
            for wanted in (True, False):  # is being answered; and then is not any more
                for _ in range(300):
                    if ((await server.request("GET", dump)).body.count(b"list,") > 0) is wanted:
                        break
                    await asyncio.sleep(0.01)
                else:
                    raise AssertionError(f"never {wanted}")
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await asyncio.wait_for(reader.readexactly(40 * 500_000), 5)
        finally:
            writer.transport.abort()


async def test_a_watch_ends_with_its_client(server: TestServer) -> None:
    headers = {"Authorization": f"Bearer {server.admin_token}"}
    answer = await server.session.get(f"{server.url}{MAPS}?watch=1", headers=headers, ssl=server.tls)
    metrics = (await server.request("GET", "/metrics")).body.decode()
    assert 'apiserver_longrunning_requests{resource="configmaps"} 1.0' in metrics
    answer.close()
    for _ in range(100):
        metrics = (await server.request("GET", "/metrics")).body.decode()
        if 'apiserver_longrunning_requests{resource="configmaps"}' not in metrics:
            return
        await asyncio.sleep(0.01)
    pytest.fail("the watch outlives its client")


async def test_a_stopping_server_ends_its_watches_properly() -> None:
    async with running_apiserver() as server:
        headers = {"Authorization": f"Bearer {server.admin_token}"}
        answer = await server.session.get(f"{server.url}{MAPS}?watch=1", headers=headers, ssl=server.tls)
        reading = asyncio.ensure_future(answer.content.read())
        await asyncio.sleep(0)
        await server.stop()
        assert await asyncio.wait_for(reading, 5) == b""  # the last chunk came: not a broken connection


async def test_too_many_writes_at_once_are_asked_to_come_back() -> None:
    async with running_apiserver(serving={"max_writes": 1, "priority_and_fairness": False}) as server:
        pod = "/api/v1/namespaces/default/pods/x"
        body = json.dumps({"target": {"kind": "Node", "name": "n"}, "metadata": {"name": "x"}}).encode()

        async def slow() -> Any:
            yield body[:10]
            await gate.wait()
            yield body[10:]

        gate = asyncio.Event()
        headers = {"Authorization": "Bearer scheduler-token", "Content-Type": "application/json"}
        url = f"{server.url}{pod}/binding"
        first = asyncio.ensure_future(server.session.post(url, data=slow(), headers=headers, ssl=server.tls))
        for _ in range(200):
            second = await server.request("DELETE", pod, token="scheduler-token")
            if second.status == 429:
                break
            await asyncio.sleep(0.005)
        assert (second.status, second.body) == (429, b"Too many requests, please try again later.\n")
        assert second.headers["Retry-After"] == "1"
        assert (await server.request("DELETE", f"{MAPS}/x")).status == 404  # administrators always get in
        gate.set()
        assert (await first).status == 404  # let in, and told that there is no such pod

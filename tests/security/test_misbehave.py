"""One user who lists, dawdles, watches and floods as much as he can, and a node that wants no more than to renew its lease.

What is checked is what happens, not how long it takes: ``python -m tests.robustness.misbehave`` measures.
"""

import asyncio
import contextlib
import re
import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.apiserver import TestServer, running_apiserver

MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
MALLORY = "viewer-token"  # of the user nobody-special
SEATS = 60
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    """With few seats, and lists of 12 MB that an ordinary user may read: more than the kernel holds for a connection."""
    async with running_apiserver(serving={"max_reads": SEATS, "max_writes": 0, "request_timeout": 20.0}) as started:
        for number in range(40):
            body = {"metadata": {"name": f"m{number}"}, "data": {"a": "x" * 300_000}}
            assert (await started.request("POST", MAPS, body)).status == 201
        binding = {
            "metadata": {"name": "view"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "nobody-special"}],
        }
        await started.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        yield started


class Crowd:
    """Many connections of one user."""

    def __init__(self, server: TestServer) -> None:
        self._server = server
        self._opened: list[Streams] = []

    async def send(self, count: int, path: str, head: bytes | None = None) -> list[Streams]:
        """``head`` instead of a GET of ``path``. Nothing of the answers is read."""
        request = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {MALLORY}\r\n\r\n".encode() if head is None else head

        async def one() -> Streams:
            narrow = socket.socket()
            narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
            narrow.setblocking(False)
            await asyncio.get_running_loop().sock_connect(narrow, ("127.0.0.1", self._server.port))
            streams = await asyncio.open_connection(sock=narrow, ssl=self._server.tls, server_hostname="127.0.0.1", limit=2048)
            streams[1].write(request)
            return streams

        opened = list(await asyncio.gather(*(one() for _ in range(count))))
        self._opened += opened
        return opened

    def leave(self) -> None:
        for _, writer in self._opened:
            writer.transport.abort()


async def table(server: TestServer, what: str) -> list[dict[str, str]]:
    """A dump of the flow control, which is always answered."""
    text = (await server.request("GET", f"/debug/api_priority_and_fairness/{what}")).body.decode()
    columns, *rows = [re.split(r",\s*", line) for line in text.splitlines()]
    return [dict(zip(columns, row, strict=True)) for row in rows]


async def level(server: TestServer, name: str) -> dict[str, str]:
    return next(row for row in await table(server, "dump_priority_levels") if row["PriorityLevelName"] == name)


async def renew(server: TestServer, times: int) -> None:
    """As a kubelet: read once, then write what the last answer said, renewed."""
    body: Any = {"metadata": {"name": "node-1"}, "spec": {"holderIdentity": "node-1", "leaseDurationSeconds": 40}}
    answer = await server.request("GET", f"{LEASES}/node-1", token="node-token")
    if answer.status == 404:
        answer = await server.request("POST", LEASES, body, token="node-token")
    for _ in range(times):
        lease = answer.json
        lease["spec"]["renewTime"] = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        answer = await asyncio.wait_for(server.request("PUT", f"{LEASES}/node-1", lease, token="node-token"), 10)
        assert answer.status == 200
        assert answer.json["spec"]["renewTime"] == lease["spec"]["renewTime"]  # a Conflict would say that one was lost


async def settled(server: TestServer) -> None:
    """Everybody is gone, and nothing of them is left."""
    for _ in range(1000):
        metrics = (await server.request("GET", "/metrics")).body.decode()
        idle = (await level(server, "global-default"))["IsIdle"]
        if idle == "true" and "apiserver_longrunning_requests{" not in metrics:
            return
        await asyncio.sleep(0.01)
    pytest.fail("seats or watches are left")


@contextlib.asynccontextmanager
async def crowd(server: TestServer) -> AsyncIterator[Crowd]:
    made = Crowd(server)
    try:
        yield made
    finally:
        made.leave()


async def test_lists_that_nobody_reads_take_their_own_seats_and_no_others(server: TestServer) -> None:
    async with crowd(server) as attackers:
        await attackers.send(150, MAPS)
        for _ in range(1000):
            busy = await level(server, "global-default")
            if int(busy["WaitingRequests"]) + int(busy["RejectedRequests"]) + int(busy["DispatchedRequests"]) >= 150:
                break
            await asyncio.sleep(0.01)
        assert 0 < int(busy["ExecutingRequests"]) < 20
        assert int(busy["WaitingRequests"]) > 100
        await renew(server, 20)
        assert (await server.request("GET", "/api/v1/pods", token="scheduler-token")).status == 200  # of another level
    await settled(server)
    assert (await server.request("GET", f"{MAPS}/m1", token=MALLORY)).status == 200


async def test_watches_have_no_seats_and_those_that_are_not_read_end(server: TestServer) -> None:
    async with crowd(server) as attackers:
        version = (await server.request("GET", f"{MAPS}?limit=1")).json["metadata"]["resourceVersion"]
        for _ in range(5):  # again and again
            opened = await attackers.send(40, f"{MAPS}?watch=1&resourceVersion={version}")
            heads = await asyncio.gather(*(asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10) for reader, _ in opened))
            assert all(b" 200 " in head.split(b"\r\n")[0] for head in heads)
        assert (await level(server, "global-default"))["ExecutingRequests"] == "0"
        for number in range(40):  # each is told of 12 MB
            patch = {"metadata": {"labels": {"turn": "one"}}}
            path = f"{MAPS}/m{number}"
            assert (await server.request("PATCH", path, patch, content_type="application/merge-patch+json")).status == 200
        await renew(server, 10)
    await settled(server)


async def test_floods_and_dawdlers_take_no_seat_from_others(server: TestServer) -> None:
    async with crowd(server) as attackers:
        await attackers.send(30, "", b"GET / HTTP/1.1\r\n" + b"X-A: " + b"a" * 50_000 + b"\r\n")
        await attackers.send(30, "", b"GET /" + b"a" * 20_000)
        body = f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {MALLORY}\r\nContent-Type: application/json\r\n"
        await attackers.send(100, "", body.encode() + b"Content-Length: 10000\r\n\r\n{")
        await attackers.send(100, MAPS, b"nonsense\r\n\r\n")
        await renew(server, 20)
        assert (await server.request("GET", "/readyz")).status == 200
    await settled(server)


async def test_who_is_refused_and_asks_again_at_once_waits_for_the_next_refusal(server: TestServer) -> None:
    """A thousand clients without a name, each as quick as it can."""
    stop = asyncio.Event()
    counted = 0

    async def ask() -> None:
        nonlocal counted
        while not stop.is_set():
            assert (await server.request("GET", MAPS, token="wrong")).status == 401
            counted += 1

    asking = [asyncio.ensure_future(ask()) for _ in range(40)]
    before = asyncio.get_running_loop().time()
    await renew(server, 20)
    await asyncio.sleep(1)
    passed = asyncio.get_running_loop().time() - before
    stop.set()
    await asyncio.gather(*asking)
    assert counted <= 300 + 320 * passed + 40

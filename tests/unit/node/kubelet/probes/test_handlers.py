"""HTTP and TCP handlers against real sockets on loopback."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from node.kubelet import handlers
from node.kubelet.probes.prober import probe_once
from node.kubelet.probes.results import Outcome
from tests.support.pod_workers import container


@asynccontextmanager
async def _server(answer: bytes) -> AsyncIterator[tuple[int, list[bytes]]]:
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], seen


async def _no_exec(container_id: str, command: object, timeout: float) -> tuple[int, bytes]:
    raise AssertionError


async def _http(port: int, **action: Any) -> Any:
    probe = {"httpGet": {"port": port, **action}}
    return await probe_once(probe, container(), "c", "127.0.0.1", 1, _no_exec)


async def test_a_good_answer() -> None:
    async with _server(b"HTTP/1.1 204 No Content\r\n\r\n") as (port, seen):
        headers = [{"name": "X-Custom", "value": "v"}, {"name": "user-agent", "value": "me"}]
        assert (await _http(port, path="/a?b=%20c", httpHeaders=headers)).outcome is Outcome.SUCCESS
        assert seen[0].startswith(b"GET /a?b=%20c HTTP/1.1\r\n")
        assert b"X-Custom: v" in seen[0]
        assert b"user-agent: me" in seen[0]


@pytest.mark.parametrize(("code", "outcome"), [(200, "success"), (302, "success"), (400, "failure"), (500, "failure")])
async def test_status_codes(code: int, outcome: str) -> None:
    async with _server(f"HTTP/1.1 {code} X\r\nContent-Length: 0\r\n\r\n".encode()) as (port, _):
        attempt = await _http(port)
        assert attempt.outcome.value == outcome
        if outcome == "failure":
            assert attempt.output == f"HTTP probe failed with statuscode: {code}"


async def test_a_redirect_to_elsewhere_is_not_followed() -> None:
    async with _server(b"HTTP/1.1 302 X\r\nLocation: http://192.0.2.1/\r\nContent-Length: 0\r\n\r\n") as (port, _):
        assert (await _http(port)).outcome is Outcome.SUCCESS


async def test_nobody_listens() -> None:
    server = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    attempt = await _http(port)
    assert attempt.refused
    assert "connection refused" in attempt.output
    tcp = await probe_once({"tcpSocket": {"port": port}}, container(), "c", "127.0.0.1", 1, _no_exec)
    assert tcp.refused
    assert tcp.output == f"dial tcp 127.0.0.1:{port}: connect: connection refused"


async def test_named_ports() -> None:
    named = container(ports=[{"name": "web", "containerPort": 8080}])
    assert handlers.port_of(named, "web") == 8080
    with pytest.raises(handlers.HandlerError, match="port other not found"):
        handlers.port_of(named, "other")


async def test_exec_outcomes() -> None:
    async def run(container_id: str, command: object, timeout: float) -> tuple[int, bytes]:
        if timeout > 5:
            raise TimeoutError
        return (0 if timeout < 2 else 1), b"out"

    probe = {"exec": {"command": ["a", "b"]}}
    assert (await probe_once(probe, container(), "c", "", 1, run)).outcome is Outcome.SUCCESS
    assert (await probe_once(probe, container(), "c", "", 3, run)).output == "out"
    late = await probe_once(probe, container(), "c", "", 9, run)
    assert (late.outcome, late.output) == (Outcome.FAILURE, 'command timed out: "a b" timed out after 9s')


@asynccontextmanager
async def _grpc_server(status: int) -> AsyncIterator[tuple[int, list[bytes]]]:
    import grpc.aio

    seen: list[bytes] = []

    async def check(request: bytes, context: object) -> bytes:
        seen.append(request)
        return bytes([0x08, status])

    methods = {"Check": grpc.unary_unary_rpc_method_handler(check)}
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("grpc.health.v1.Health", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield port, seen
    await server.stop(None)


@pytest.mark.parametrize(("status", "outcome"), [(1, Outcome.SUCCESS), (2, Outcome.FAILURE)])
async def test_grpc_health(status: int, outcome: Outcome) -> None:
    async with _grpc_server(status) as (port, seen):
        probe = {"grpc": {"port": port, "service": "liveness"}}
        attempt = await probe_once(probe, container(), "c", "127.0.0.1", 2, _no_exec)
        assert attempt.outcome is outcome
        assert seen == [b"\x0a\x08liveness"]
        if outcome is Outcome.FAILURE:
            assert attempt.output == 'service unhealthy (responded with "NOT_SERVING")'

"""What load balancers hear on a service's health check port."""

import asyncio
import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest

from netproxy.healthcheck import HealthCheckServers
from netproxy.plan import HealthCheck
from tests.support.ports import free_port


@pytest.fixture
async def servers() -> AsyncIterator[HealthCheckServers]:
    made = HealthCheckServers(lambda: made.well, "127.0.0.1", lambda *told: made.told.append(told))  # type: ignore[attr-defined]
    made.told = []  # type: ignore[attr-defined]
    made.well = True  # type: ignore[attr-defined]
    task = asyncio.create_task(made.run())
    yield made
    task.cancel()
    await asyncio.wait({task})


async def _ask(port: int) -> tuple[int, dict[str, object], str]:
    async with aiohttp.ClientSession() as session:
        for _ in range(100):
            try:
                async with session.get(f"http://127.0.0.1:{port}/") as answer:
                    return answer.status, await answer.json(), answer.headers["X-Load-Balancing-Endpoint-Weight"]
            except aiohttp.ClientConnectionError:
                await asyncio.sleep(0.02)
    raise AssertionError("nobody listens")


async def test_local_endpoints_decide_and_so_does_the_proxys_own_health(servers: HealthCheckServers) -> None:
    port = free_port()
    servers.set({"default/web": HealthCheck("default/web", port, 2)}, "IPv4")
    name = {"namespace": "default", "name": "web"}
    assert await _ask(port) == (200, {"service": name, "localEndpoints": 2, "serviceProxyHealthy": True}, "2")
    servers.set({"default/web": HealthCheck("default/web", port, 0)}, "IPv4")
    assert await _ask(port) == (503, {"service": name, "localEndpoints": 0, "serviceProxyHealthy": True}, "0")
    servers.set({"default/web": HealthCheck("default/web", port, 1)}, "IPv4")
    servers.well = False  # type: ignore[attr-defined]
    assert await _ask(port) == (503, {"service": name, "localEndpoints": 1, "serviceProxyHealthy": False}, "1")


async def test_both_families_share_a_port_and_a_pod_of_both_is_one_endpoint(servers: HealthCheckServers) -> None:
    port = free_port()
    servers.set({"default/web": HealthCheck("default/web", port, 2)}, "IPv4")
    servers.set({"default/web": HealthCheck("default/web", port, 1)}, "IPv6")
    assert (await _ask(port))[2] == "2"
    servers.set({"default/web": None}, "IPv4")
    assert (await _ask(port))[2] == "1"


async def test_a_service_moves_its_port_and_goes(servers: HealthCheckServers) -> None:
    first, second = free_port(), free_port()
    servers.set({"default/web": HealthCheck("default/web", first, 1)}, "IPv4")
    assert (await _ask(first))[0] == 200
    servers.set({"default/web": HealthCheck("default/web", second, 1)}, "IPv4")
    assert (await _ask(second))[0] == 200
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection("127.0.0.1", first)
    servers.set({"default/web": None}, "IPv4")
    await asyncio.sleep(0.1)
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection("127.0.0.1", second)


async def test_a_taken_port_does_not_stop_the_others(servers: HealthCheckServers) -> None:
    free = free_port()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        busy = taken.getsockname()[1]
        servers.set({"default/a": HealthCheck("default/a", busy, 1), "default/b": HealthCheck("default/b", free, 1)}, "IPv4")
        assert (await _ask(free))[0] == 200
        ((service, why),) = servers.told  # type: ignore[attr-defined]
        assert (service, f":{busy}: " in why) == ("default/a", True)

"""The loop: when it syncs, what it does after a failure, what it forgets, what it tells."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from netproxy.kernel.conntrack import FakeConntrack, Flow
from tests.support.packets import Packet, Tracer
from tests.support.proxy import TestProxy, endpoint, endpoint_slice, node, port, service

VIP = "10.96.0.10"
UDP = [port(5353, protocol="UDP")]


@asynccontextmanager
async def running(proxy: TestProxy) -> AsyncIterator[TestProxy]:
    task = asyncio.create_task(proxy.proxier.run())
    try:
        await proxy.clock.settle()  # type: ignore[attr-defined]
        yield proxy
    finally:
        task.cancel()
        await asyncio.wait({task})


def _where(proxy: TestProxy) -> set[str]:
    return Tracer(proxy.tables.tables).where(Packet("10.244.0.9", VIP, 80))


def _proxy() -> TestProxy:
    proxy = TestProxy()
    proxy.put(node(), service(ip=VIP), endpoint_slice([endpoint("10.244.0.2")]))
    return proxy


async def test_a_change_after_a_quiet_time_is_programmed_at_once_and_a_storm_is_paced() -> None:
    async with running(_proxy()) as proxy:
        clock = proxy.clock
        assert _where(proxy) == {"10.244.0.2:8080"}
        await clock.advance(60)  # type: ignore[attr-defined]
        before = len(proxy.tables.transactions)
        proxy.put(endpoint_slice([endpoint("10.244.0.3")]))
        await clock.settle()  # type: ignore[attr-defined]
        assert _where(proxy) == {"10.244.0.3:8080"}
        for number in range(100):
            proxy.put(endpoint_slice([endpoint(f"10.244.1.{number}")]))
            await clock.advance(0.05)  # type: ignore[attr-defined]
        assert len(proxy.tables.transactions) - before <= 8
        await clock.advance(1)  # type: ignore[attr-defined]
        assert _where(proxy) == {"10.244.1.99:8080"}


async def test_after_a_refusal_everything_is_written_again_with_growing_pauses() -> None:
    async with running(_proxy()) as proxy:
        proxy.tables.lacks = "10.244.0.3"
        proxy.put(endpoint_slice([endpoint("10.244.0.3")]))
        await proxy.clock.advance(5)  # type: ignore[attr-defined]
        # the only service is refused: nothing can be served of it, but nothing is lost either
        proxy.tables.lacks = None
        proxy.put(endpoint_slice([endpoint("10.244.0.4")]))
        await proxy.clock.advance(60)  # type: ignore[attr-defined]
        assert _where(proxy) == {"10.244.0.4:8080"}


async def test_rules_flushed_by_others_come_back_within_the_sync_period() -> None:
    async with running(_proxy()) as proxy:
        proxy.tables.flush()
        assert _where(proxy) == {f"{VIP}:80"}
        await proxy.clock.advance(31)  # type: ignore[attr-defined]
        assert _where(proxy) == {"10.244.0.2:8080"}


async def test_one_service_that_the_kernel_refuses_does_not_stop_the_others() -> None:
    proxy = TestProxy()
    proxy.put(node())
    for number in range(2, 9):
        proxy.put(service(f"s{number}", f"10.96.0.{number}"), endpoint_slice([endpoint("10.244.0.2")], f"s{number}"))
    proxy.put(service("sctp", "10.96.0.99", [port(80, protocol="SCTP")]))
    proxy.tables.lacks = "-m sctp"
    await proxy.sync()
    tracer = Tracer(proxy.tables.tables)
    for number in range(2, 9):
        assert tracer.where(Packet("10.244.0.9", f"10.96.0.{number}", 80)) == {"10.244.0.2:8080"}
    assert not [chain for chains in proxy.tables.tables.values() for chain in chains if "TRIAL" in chain]
    proxy.put(endpoint_slice([endpoint("10.244.0.3")], "s2"))
    await proxy.sync()
    assert Tracer(proxy.tables.tables).where(Packet("10.244.0.9", "10.96.0.2", 80)) == {"10.244.0.3:8080"}


async def test_a_new_zone_of_the_node_is_planned_for_every_service() -> None:
    proxy = TestProxy()
    zoned = [endpoint("10.244.0.2", zones=("a",)), endpoint("10.244.0.3", zones=("b",))]
    proxy.put(node(zone="a"), service(ip=VIP), endpoint_slice(zoned))
    await proxy.sync()
    assert _where(proxy) == {"10.244.0.2:8080"}
    proxy.put(node(zone="b"))
    await proxy.sync()
    assert _where(proxy) == {"10.244.0.3:8080"}


def _flow(destination: str, number: int, reply: str, reply_port: int = 5353) -> Flow:
    return Flow(destination, number, reply, reply_port)


STALE = _flow(VIP, 53, "10.244.0.2")
KEPT = [
    _flow(VIP, 53, "10.244.0.3"),
    _flow("8.8.8.8", 53, "8.8.8.8", 53),
    _flow("10.96.0.11", 53, "10.244.0.2"),
    _flow("8.8.8.8", 30053, "8.8.8.8", 30053),
]


async def _dns(flows: FakeConntrack) -> TestProxy:
    proxy = TestProxy(flows=flows)
    dns = service(ip=VIP, type="NodePort", ports=[port(53, protocol="UDP", node_port=30053)], externalIPs=["203.0.113.1"])
    both = endpoint_slice([endpoint("10.244.0.2"), endpoint("10.244.0.3")], ports=UDP)
    proxy.put(node(address="10.0.0.1"), dns, both)
    await proxy.sync()
    return proxy


async def test_flows_to_an_endpoint_that_is_gone_are_forgotten_at_every_address() -> None:
    stale = [STALE, _flow("10.0.0.1", 30053, "10.244.0.2"), _flow("203.0.113.1", 53, "10.244.0.2")]
    flows = FakeConntrack()
    proxy = await _dns(flows)
    flows.flows = [*stale, *KEPT]
    proxy.put(endpoint_slice([endpoint("10.244.0.3")], ports=UDP))
    await proxy.sync()
    assert flows.flows == KEPT


async def test_flows_from_before_there_were_endpoints_are_forgotten() -> None:
    flows = FakeConntrack()
    proxy = TestProxy(flows=flows)
    proxy.put(node(), service(ip=VIP, ports=[port(53, protocol="UDP")]))
    await proxy.sync()
    flows.flows = [_flow(VIP, 53, VIP, 53)]
    proxy.put(endpoint_slice([endpoint("10.244.0.3")], ports=UDP))
    await proxy.sync()
    assert flows.flows == []


async def test_flows_of_a_service_that_is_gone_or_scaled_to_zero_are_forgotten() -> None:
    for change in ("scale", "delete"):
        flows = FakeConntrack()
        proxy = await _dns(flows)
        flows.flows = [STALE]
        if change == "scale":
            proxy.put(endpoint_slice([], ports=UDP))
        else:
            proxy.delete(service(ip=VIP))
        await proxy.sync()
        assert flows.flows == [], change


async def test_flows_to_an_endpoint_that_leaves_gracefully_stay_until_it_serves_no_more() -> None:
    flows = FakeConntrack()
    proxy = await _dns(flows)
    flows.flows = [STALE]
    for conditions, left in (
        ({"ready": False, "serving": True, "terminating": True}, [STALE]),
        ({"ready": False, "serving": False, "terminating": True}, []),
    ):
        proxy.put(endpoint_slice([endpoint("10.244.0.2", **conditions), endpoint("10.244.0.3")], ports=UDP))
        await proxy.sync()
        assert flows.flows == left


async def test_at_start_flows_that_went_stale_while_no_proxy_ran_are_forgotten() -> None:
    flows = FakeConntrack([_flow(VIP, 53, "10.244.0.77"), *KEPT])
    await _dns(flows)
    assert flows.flows == KEPT


async def test_what_only_adds_endpoints_or_concerns_tcp_does_not_read_the_table() -> None:
    flows = FakeConntrack()
    proxy = await _dns(flows)
    looks = flows.dumps
    proxy.put(endpoint_slice([endpoint(f"10.244.0.{n}") for n in (2, 3, 4)], ports=UDP))
    proxy.put(service("tcp", "10.96.0.12"), endpoint_slice([endpoint("10.244.0.2")], "tcp"))
    await proxy.sync()
    proxy.put(endpoint_slice([], "tcp"))
    await proxy.sync()
    assert flows.dumps == looks


async def test_the_journal_names_service_moment_and_endpoints() -> None:
    proxy = _proxy()
    await proxy.sync()
    assert proxy.proxier.journal.as_json() == [
        {"service": "default/web", "programmed": "2026-01-01T00:00:00.000000Z", "seconds": 0.0, "endpoints": 1}
    ]
    for number in range(1100):
        proxy.put(endpoint_slice([endpoint(f"10.244.{number // 250}.{number % 250}")]))
        await proxy.sync()
    assert len(proxy.proxier.journal.as_json()) == 1000


async def test_programming_latency_counts_from_the_trigger_annotation() -> None:
    proxy = _proxy()
    await proxy.sync()
    await proxy.clock.advance(10)  # type: ignore[attr-defined]
    trigger = {"annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:07Z"}}
    proxy.put(endpoint_slice([endpoint("10.244.0.3")], **trigger))
    await proxy.sync()
    text = proxy.registry.expose().decode()
    assert 'kubeproxy_network_programming_duration_seconds_count{ip_family="IPv4"} 1.0' in text
    assert 'kubeproxy_network_programming_duration_seconds_sum{ip_family="IPv4"} 3.0' in text


async def test_health_fails_when_a_change_waits_too_long_and_on_a_node_that_goes_away() -> None:
    proxy = _proxy()
    await proxy.sync()
    assert proxy.health.healthy
    proxy.tables.fail_next = "busy"
    proxy.put(endpoint_slice([endpoint("10.244.0.3")]))
    assert not await proxy.proxier.sync()
    await proxy.clock.advance(61)  # type: ignore[attr-defined]
    assert not proxy.health.healthy
    await proxy.sync()
    assert proxy.health.healthy
    leaving = node()
    leaving["spec"] = {"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]}
    proxy.put(leaving)
    await proxy.sync()
    assert (proxy.health.healthy, proxy.health.eligible) == (True, False)


@pytest.mark.parametrize("bad", ["not-an-address", "2001:db8::1", "010.0.0.1"])
async def test_what_is_no_address_of_the_family_is_left_out(bad: str) -> None:
    proxy = _proxy()
    proxy.put(service(ip=VIP, type="LoadBalancer", status_ips=[bad]), endpoint_slice([endpoint(bad), endpoint("10.244.0.2")]))
    await proxy.sync()
    assert bad not in str(proxy.tables.tables)
    assert _where(proxy) == {"10.244.0.2:8080"}

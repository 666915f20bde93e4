"""Changes applied one after another leave the same rules as the last state written at once, whatever the order."""

import asyncio
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from netproxy.backends.iptables import names
from netproxy.kernel.fake_iptables import FakeIPTables
from netproxy.kernel.fake_ipvs import FakeIPVS
from netproxy.kernel.fake_nft import FakeNFT
from tests.support.proxy import IPVSProxy, Object, TestProxy, endpoint, endpoint_slice, nftables_proxy, node, port, service

Failing = FakeIPTables | FakeNFT | FakeIPVS
NAMES = ("a", "b", "c")
_ips = st.integers(2, 5).map(lambda number: f"10.244.0.{number}")


@st.composite
def _services(draw: st.DrawFn) -> Object:
    name = draw(st.sampled_from(NAMES))
    spec: dict[str, Any] = {}
    kind = draw(st.sampled_from(["ClusterIP", "NodePort", "LoadBalancer"]))
    number = NAMES.index(name) + 1
    ports = [port(80, "http", node_port=30000 + number if kind != "ClusterIP" else 0)]
    if draw(st.booleans()):
        ports.append(port(53, "dns", "UDP"))
    if kind == "LoadBalancer":
        spec["status_ips"] = draw(st.sampled_from([(), (f"198.51.100.{number}",)]))
        spec["loadBalancerSourceRanges"] = draw(st.sampled_from([[], ["192.0.2.0/24"]]))
        spec["healthCheckNodePort"] = draw(st.sampled_from([0, 31000 + number]))
    if kind != "ClusterIP":
        spec["externalTrafficPolicy"] = draw(st.sampled_from(["Cluster", "Local"]))
    spec["internalTrafficPolicy"] = draw(st.sampled_from(["Cluster", "Local"]))
    spec["sessionAffinity"] = draw(st.sampled_from(["None", "ClientIP"]))
    spec["externalIPs"] = draw(st.sampled_from([[], [f"203.0.113.{number}"]]))
    return service(name, f"10.96.0.{number}", ports, type=kind, **spec)


@st.composite
def _slices(draw: st.DrawFn) -> Object:
    endpoints = [
        endpoint(
            ip,
            draw(st.sampled_from(["node-1", "node-2"])),
            ready=draw(st.booleans()),
            serving=draw(st.booleans()),
            terminating=draw(st.booleans()),
        )
        for ip in draw(st.lists(_ips, max_size=4, unique=True))
    ]
    ports = [port(8080, "http"), port(5353, "dns", "UDP")]
    return endpoint_slice(endpoints, draw(st.sampled_from(NAMES)), ports, draw(st.sampled_from("xy")))


_step = st.one_of(
    st.tuples(st.just("put"), st.one_of(_services(), _slices())),
    st.tuples(st.just("delete"), st.one_of(_services(), _slices())),
    st.tuples(st.just("sync"), st.none()),
    st.tuples(st.just("fail"), st.none()),
)


def _key(obj: Object) -> tuple[str, str]:
    return ("slice" if "addressType" in obj else "service"), obj["metadata"]["name"]


@settings(max_examples=150, deadline=None)
@given(st.lists(_step, max_size=30))
def test_changes_folded_equal_the_state_at_once(steps: list[tuple[str, Any]]) -> None:
    asyncio.run(_compare_iptables(steps))


@settings(max_examples=150, deadline=None)
@given(st.lists(_step, max_size=30))
def test_the_same_with_nftables(steps: list[tuple[str, Any]]) -> None:
    asyncio.run(_compare_nftables(steps))


@settings(max_examples=150, deadline=None)
@given(st.lists(_step, max_size=30))
def test_the_same_with_ipvs(steps: list[tuple[str, Any]]) -> None:
    asyncio.run(_compare_ipvs(steps))


async def _compare_ipvs(steps: list[tuple[str, Any]]) -> None:
    stepwise, at_once = IPVSProxy(), IPVSProxy()
    await _walk(steps, stepwise.proxy, at_once.proxy, stepwise.ipvs)
    assert stepwise.state() == at_once.state()


async def _compare_iptables(steps: list[tuple[str, Any]]) -> None:
    stepwise, at_once = TestProxy(), TestProxy()
    await _walk(steps, stepwise, at_once, stepwise.tables)
    assert _sorted(stepwise) == _sorted(at_once)


async def _compare_nftables(steps: list[tuple[str, Any]]) -> None:
    (stepwise, nft), (at_once, expected) = nftables_proxy(), nftables_proxy()
    await _walk(steps, stepwise, at_once, nft)
    # what is no longer used is empty at once, and goes with the next sync
    await stepwise.clock.advance(2)  # type: ignore[attr-defined]
    stepwise.put(service("last", "10.96.0.200"))
    await stepwise.sync()
    at_once.put(service("last", "10.96.0.200"))
    await at_once.sync()
    assert nft.state() == expected.state()


async def _walk(steps: list[tuple[str, Any]], stepwise: TestProxy, at_once: TestProxy, tables: Failing) -> None:
    for proxy in (stepwise, at_once):
        proxy.put(node())
    await stepwise.sync()
    state: dict[tuple[str, str], Object] = {}
    for verb, obj in steps:
        if verb == "put":
            stepwise.put(obj)
            state[_key(obj)] = obj
        elif verb == "delete":
            stepwise.delete(obj)
            state.pop(_key(obj), None)
        else:
            tables.fail_next = "refused by the test" if verb == "fail" else None
            await stepwise.proxier.sync()
            tables.fail_next = None
    await stepwise.sync()
    at_once.put(*random.Random(1).sample(list(state.values()), len(state)))
    await at_once.sync()


def _sorted(proxy: TestProxy) -> dict[str, dict[str, list[str]]]:
    """Lines of different services in a shared chain have no order, except the last of KUBE-SERVICES."""
    found: dict[str, dict[str, list[str]]] = {}
    for table, chains in proxy.tables.tables.items():
        found[table] = {
            chain: rules
            if chain.startswith(names.PORT_PREFIXES)
            else [*sorted(rules[:-1]), *rules[-1:]]
            if (table, chain) == ("nat", names.SERVICES)
            else sorted(rules)
            for chain, rules in chains.items()
        }
    return found


async def test_a_change_that_is_taken_back_before_the_sync_writes_nothing() -> None:
    proxy = TestProxy()
    before, after = endpoint_slice([endpoint("10.244.0.2")]), endpoint_slice([endpoint("10.244.0.3")])
    proxy.put(node(), service(), before)
    await proxy.sync()
    written = len(proxy.tables.transactions)
    proxy.put(after)
    proxy.put(before)
    await proxy.sync()
    assert len(proxy.tables.transactions) == written


async def test_one_endpoint_among_a_thousand_services_writes_a_few_lines() -> None:
    proxy = TestProxy()
    proxy.put(node())
    for number in range(1000):
        name = f"s{number}"
        proxy.put(service(name, f"10.96.{number // 250}.{number % 250}"), endpoint_slice([endpoint("10.244.0.2")], name))
    await proxy.sync()
    proxy.put(endpoint_slice([endpoint("10.244.0.2"), endpoint("10.244.0.3")], "s7"))
    await proxy.sync()
    assert len(proxy.tables.transactions[-1].splitlines()) < 12
    proxy.put(service("new", "10.97.0.1"))
    await proxy.sync()
    assert len(proxy.tables.transactions[-1].splitlines()) < 6

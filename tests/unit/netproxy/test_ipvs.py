"""The ipvs backend on a kernel in memory: upstream's sets, addresses and virtual servers, and how few calls a change takes."""

from typing import Any

import pytest

from netproxy.backends.ipvs import names
from netproxy.backends.ipvs.difference import difference, retiring
from netproxy.backends.ipvs.render import Wanted
from netproxy.backends.ipvs.settings import IPVSSettings
from netproxy.backends.options import Options
from netproxy.kernel.ipvs import PERSISTENT, Call, Held, Real, RealState, Server, Settings
from tests.support.proxy import CLUSTER_CIDR, IPVSProxy, endpoint, endpoint_slice, node, port, service

RR = Settings("rr")
VIP = Server("10.96.0.10", "TCP", 80)
A, B = Real("10.244.0.2", 8080), Real("10.244.0.3", 8080)


def _pair(kernel: IPVSProxy, server: Server) -> tuple[Settings, dict[Real, int]]:
    found: Any = kernel.ipvs.state()[server]
    return found


async def test_a_balanced_service_has_upstreams_sets_addresses_and_virtual_servers() -> None:
    kernel = IPVSProxy()
    kernel.proxy.put(
        node(),
        service(
            type="LoadBalancer",
            ports=[port(80, node_port=30080)],
            status_ips=["198.51.100.20"],
            externalIPs=["203.0.113.1"],
            loadBalancerSourceRanges=["10.0.0.0/24", "192.0.2.7/32"],
            sessionAffinity="ClientIP",
        ),
        endpoint_slice([endpoint("10.244.0.2"), endpoint("10.244.1.3", "node-2")]),
    )
    await kernel.proxy.sync()
    reals = {Real("10.244.0.2", 8080): 1, Real("10.244.1.3", 8080): 1}
    sticky = Settings("rr", PERSISTENT, 10800)
    assert kernel.ipvs.state() == {
        Server("10.96.0.10", "TCP", 80): (sticky, reals),
        Server("203.0.113.1", "TCP", 80): (sticky, reals),
        Server("198.51.100.20", "TCP", 80): (sticky, reals),
        Server("10.0.0.1", "TCP", 30080): (sticky, reals),
    }
    assert kernel.addresses.bound == {"10.96.0.10", "203.0.113.1", "198.51.100.20"}
    assert {name: entries for name, entries in kernel.sets.sets.items() if entries} == {
        "KUBE-LOOP-BACK": {"10.244.0.2,tcp:8080,10.244.0.2"},
        "KUBE-CLUSTER-IP": {"10.96.0.10,tcp:80"},
        "KUBE-EXTERNAL-IP": {"203.0.113.1,tcp:80"},
        "KUBE-LOAD-BALANCER": {"198.51.100.20,tcp:80"},
        "KUBE-LOAD-BALANCER-FW": {"198.51.100.20,tcp:80"},
        "KUBE-LOAD-BALANCER-SOURCE-CIDR": {"198.51.100.20,tcp:80,10.0.0.0/24", "198.51.100.20,tcp:80,192.0.2.7"},
        "KUBE-LOAD-BALANCER-SOURCE-IP": {"198.51.100.20,tcp:80,198.51.100.20"},
        "KUBE-NODE-PORT-TCP": {"30080"},
        "KUBE-IPVS-IPS": {"10.96.0.10", "203.0.113.1", "198.51.100.20"},
    }
    assert set(kernel.sets.sets) == set(names.SETS)


async def test_policy_local_and_health_checks_are_told_to_the_rules() -> None:
    kernel = IPVSProxy()
    spec: dict[str, Any] = {"externalTrafficPolicy": "Local", "healthCheckNodePort": 31000, "externalIPs": ["203.0.113.1"]}
    ports = [port(80, "web", node_port=30080), port(90, "sctp", "SCTP", 30090), port(53, "dns", "UDP", 30053)]
    here, elsewhere, served = (
        endpoint("10.244.0.2"),
        endpoint("10.244.1.3", "node-2"),
        [port(8080, "web"), port(53, "dns", "UDP")],
    )
    web = service(ports=ports, type="LoadBalancer", status_ips=["198.51.100.20"], **spec)
    kernel.proxy.put(node(), web, endpoint_slice([here, elsewhere], ports=served))
    await kernel.proxy.sync()
    sets = kernel.sets.sets
    assert sets["KUBE-NODE-PORT-LOCAL-TCP"] == sets["KUBE-NODE-PORT-TCP"] == {"30080"}
    assert sets["KUBE-NODE-PORT-LOCAL-UDP"] == {"30053"}
    assert sets["KUBE-NODE-PORT-LOCAL-SCTP-HASH"] == sets["KUBE-NODE-PORT-SCTP-HASH"] == {"10.0.0.1,sctp:30090"}
    assert sets["KUBE-HEALTH-CHECK-NODE-PORT"] == {"31000"}
    assert sets["KUBE-LOAD-BALANCER-LOCAL"] == sets["KUBE-LOAD-BALANCER"]
    assert (len(sets["KUBE-EXTERNAL-IP-LOCAL"]), sets["KUBE-EXTERNAL-IP"]) == (3, set())
    assert _pair(kernel, Server("10.0.0.1", "TCP", 30080))[1] == {Real("10.244.0.2", 8080): 1}
    assert len(_pair(kernel, VIP)[1]) == 2
    # without a local one the pods of this node still come in
    kernel.proxy.put(endpoint_slice([elsewhere], ports=served))
    await kernel.proxy.sync()
    assert _pair(kernel, Server("10.0.0.1", "TCP", 30080))[1].get(Real("10.244.1.3", 8080)) == 1


async def test_internal_policy_local_leads_nowhere_without_a_local_endpoint() -> None:
    kernel = IPVSProxy()
    kernel.proxy.put(node(), service(internalTrafficPolicy="Local"), endpoint_slice([endpoint("10.244.1.3", "node-2")]))
    await kernel.proxy.sync()
    assert _pair(kernel, VIP)[1] == {}


async def test_a_node_outside_the_source_ranges_is_kept_from_the_balancer() -> None:
    kernel = IPVSProxy()
    balanced: dict[str, Any] = {
        "type": "LoadBalancer",
        "status_ips": ["198.51.100.20"],
        "loadBalancerSourceRanges": ["192.0.2.0/24"],
    }
    gone = service(**balanced)
    kernel.proxy.put(node(), gone, endpoint_slice([endpoint("10.244.0.2")]))
    await kernel.proxy.sync()
    rule = "-s 198.51.100.20 -m ipvs --vaddr 198.51.100.20 --vproto tcp --vport 80 -j DROP"
    assert kernel.tables.tables["filter"][names.IPVS_OUT_FILTER] == [rule]
    kernel.proxy.delete(gone)
    await kernel.proxy.sync()
    assert kernel.tables.tables["filter"][names.IPVS_OUT_FILTER] == []


async def test_one_endpoint_among_a_thousand_services_takes_two_calls_and_no_tool_but_ipset() -> None:
    kernel = IPVSProxy()
    kernel.proxy.put(node())
    for number in range(1000):
        name = f"s{number}"
        kernel.proxy.put(service(name, f"10.96.{number // 250}.{number % 250}"), endpoint_slice([endpoint("10.244.0.2")], name))
    await kernel.proxy.sync()
    calls, restored, changes = len(kernel.ipvs.calls), len(kernel.tables.transactions), len(kernel.sets.changes)
    kernel.proxy.put(endpoint_slice([endpoint("10.244.0.3")], "s7"))
    await kernel.proxy.sync()
    server = Server("10.96.0.7", "TCP", 80)
    assert kernel.ipvs.calls[calls:] == [
        Call("add real", server, real=B),
        Call("set real", server, real=A, weight=0),
        Call("delete real", server, real=A),
    ]
    assert len(kernel.tables.transactions) == restored
    assert len(kernel.sets.changes) - changes == 1


async def test_a_real_server_with_connections_stays_at_weight_zero_until_they_end() -> None:
    kernel = IPVSProxy()
    kernel.proxy.put(node(), service(), endpoint_slice([endpoint("10.244.0.2"), endpoint("10.244.0.3")]))
    await kernel.proxy.sync()
    kernel.ipvs.connections[A] = 1
    kernel.proxy.put(endpoint_slice([endpoint("10.244.0.3")]))
    await kernel.proxy.sync()
    assert _pair(kernel, VIP) == (RR, {A: 0, B: 1})
    await kernel.proxy.resync()
    assert _pair(kernel, VIP) == (RR, {A: 0, B: 1})
    assert await kernel.proxy.backend.intact()
    assert _pair(kernel, VIP) == (RR, {A: 0, B: 1})
    kernel.ipvs.connections.clear()
    assert await kernel.proxy.backend.intact()
    assert _pair(kernel, VIP) == (RR, {B: 1})


async def test_a_real_server_that_comes_back_gets_its_weight_back() -> None:
    kernel = IPVSProxy()
    both, one = endpoint_slice([endpoint("10.244.0.2"), endpoint("10.244.0.3")]), endpoint_slice([endpoint("10.244.0.3")])
    kernel.proxy.put(node(), service(), both)
    await kernel.proxy.sync()
    kernel.ipvs.connections[A] = 1
    for obj, weights in ((one, {A: 0, B: 1}), (both, {A: 1, B: 1}), (one, {A: 0, B: 1})):
        kernel.proxy.put(obj)
        await kernel.proxy.sync()
        assert _pair(kernel, VIP)[1] == weights


CASES: dict[str, tuple[str, Held | None, Wanted | None, list[str]]] = {
    "new": ("TCP", None, Wanted(RR, frozenset({A})), ["add server", "add real"]),
    "gone": ("TCP", Held(RR, {A: RealState()}), None, ["delete server"]),
    "same": ("TCP", Held(RR, {A: RealState()}), Wanted(RR, frozenset({A})), []),
    "another scheduler": ("TCP", Held(Settings("lc"), {A: RealState()}), Wanted(RR, frozenset({A})), ["set server"]),
    "foreign weight": ("TCP", Held(RR, {A: RealState(5)}), Wanted(RR, frozenset({A})), ["set real"]),
    "leaves": ("TCP", Held(RR, {A: RealState()}), Wanted(RR), ["set real"]),
    "has left": ("TCP", Held(RR, {A: RealState(0)}), Wanted(RR), []),
    "UDP leaves": ("UDP", Held(RR, {A: RealState()}), Wanted(RR), ["delete real"]),
    "SCTP leaves": ("SCTP", Held(RR, {A: RealState()}), Wanted(RR), ["delete real"]),
    "nothing": ("TCP", None, None, []),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_fewest_calls(case: tuple[str, Held | None, Wanted | None, list[str]]) -> None:
    protocol, held, wanted, verbs = case
    server = Server("10.96.0.10", protocol, 80)
    assert [call.verb for call in difference(server, held, wanted)] == verbs
    leaves = protocol == "TCP" and held is not None and wanted is not None and not wanted.reals
    assert retiring(server, held, wanted) == (frozenset({A}) if leaves else frozenset())


ADDRESSES: dict[str, tuple[tuple[str, ...], set[str]]] = {
    "all": ((), {"10.0.0.1", "10.1.0.1"}),
    "range": (("10.1.0.0/16",), {"10.1.0.1"}),
    "primary": (("primary",), {"10.0.0.1"}),
}


@pytest.mark.parametrize("case", ADDRESSES.values(), ids=ADDRESSES)
async def test_which_addresses_have_node_ports(case: tuple[tuple[str, ...], set[str]]) -> None:
    ranges, expected = case
    kernel = IPVSProxy(Options(cluster_cidr=CLUSTER_CIDR, node_port_addresses=ranges))
    kernel.addresses.node = {"10.0.0.1", "10.1.0.1"}
    kernel.proxy.put(node(), service(type="NodePort", ports=[port(80, node_port=30080)]))
    await kernel.proxy.sync()
    assert {server.address for server in kernel.ipvs.held if server.port == 30080} == expected


async def test_new_addresses_of_the_machine_are_noticed_and_get_node_ports() -> None:
    kernel = IPVSProxy()
    kernel.proxy.put(node(), service(type="NodePort", ports=[port(80, node_port=30080)]))
    await kernel.proxy.sync()
    assert await kernel.proxy.backend.intact()
    kernel.addresses.node.add("10.1.0.1")
    assert not await kernel.proxy.backend.intact()
    kernel.proxy.put(node(address="10.1.0.1"))
    await kernel.proxy.sync()
    assert {server.address for server in kernel.ipvs.held if server.port == 30080} == {"10.0.0.1", "10.1.0.1"}


async def test_an_external_address_that_another_device_has_is_not_bound() -> None:
    kernel = IPVSProxy()
    kernel.proxy.put(node(), service(externalIPs=["10.0.0.1"]))
    await kernel.proxy.sync()
    assert kernel.addresses.bound == {"10.96.0.10"}
    assert Server("10.0.0.1", "TCP", 80) in kernel.ipvs.held


async def test_what_is_flushed_is_noticed_and_leftovers_go_but_excluded_ones_stay() -> None:
    kernel = IPVSProxy(settings=IPVSSettings(scheduler="lc", exclude_cidrs=("172.16.0.0/12",)))
    old, foreign = Server("10.96.9.9", "TCP", 80), Server("172.16.0.1", "TCP", 80)
    kernel.ipvs.held = {old: Held(RR), foreign: Held(RR, {A: RealState(0)})}
    kernel.addresses.bound = {"10.96.9.9"}
    kernel.proxy.put(node(), service(), endpoint_slice([endpoint("10.244.0.2")]))
    await kernel.proxy.sync()
    assert set(kernel.ipvs.held) == {VIP, foreign}
    assert _pair(kernel, VIP)[0].scheduler == "lc"
    assert kernel.addresses.bound == {"10.96.0.10"}
    for flush in (kernel.ipvs.held.clear, kernel.tables.flush, kernel.addresses.bound.clear):
        flush()
        assert not await kernel.proxy.backend.intact()
        await kernel.proxy.resync()
        assert await kernel.proxy.backend.intact()
    await kernel.proxy.backend.cleanup()
    assert (kernel.ipvs.held, kernel.addresses.bound, kernel.sets.sets) == ({}, set(), {})
    assert not [chain for chains in kernel.tables.tables.values() for chain in chains if chain.startswith("KUBE-")]


async def test_a_refused_service_is_set_aside() -> None:
    kernel = IPVSProxy()
    impossible: dict[str, Any] = {
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10**12}},
    }
    for number in range(3):
        kernel.proxy.put(service(f"s{number}", f"10.96.0.{number}", **(impossible if number == 1 else {})))
    await kernel.proxy.sync()
    assert {server.address for server in kernel.ipvs.held} == {"10.96.0.0", "10.96.0.2"}
    assert kernel.addresses.bound == {"10.96.0.0", "10.96.0.2"}


async def test_kernel_settings_are_upstreams() -> None:
    kernel = IPVSProxy(settings=IPVSSettings(strict_arp=True))
    wanted = {
        "net/ipv4/vs/conntrack": "1",
        "net/ipv4/vs/expire_nodest_conn": "1",
        "net/ipv4/vs/expire_quiescent_template": "1",
        "net/ipv4/ip_forward": "1",
        "net/ipv4/conf/all/arp_ignore": "1",
        "net/ipv4/conf/all/arp_announce": "2",
    }
    for name in wanted:
        kernel.sysctl.set(name, "0")
    await kernel.proxy.sync()
    assert {name: kernel.sysctl.get(name) for name in wanted} == wanted


async def test_ipv6_has_sets_of_its_own() -> None:
    kernel = IPVSProxy(Options("IPv6", cluster_cidr="fd00:10:244::/56"))
    kernel.addresses.node = {"fd00:10::1"}
    six = service(ip="fd00:10:96::000a", type="NodePort", ports=[port(80, node_port=30080)])
    kernel.proxy.put(node(address="fd00:10::1"), six, endpoint_slice([endpoint("fd00:10:244::2")]))
    await kernel.proxy.sync()
    assert kernel.sets.sets["KUBE-6-CLUSTER-IP"] == {"fd00:10:96::a,tcp:80"}
    assert "KUBE-6-LOAD-BALANCER-SOURCE-CID" in kernel.sets.sets
    assert set(kernel.ipvs.held) == {Server("fd00:10:96::a", "TCP", 80), Server("fd00:10::1", "TCP", 30080)}
    assert all("KUBE-6-" in rule for rule in kernel.tables.tables["nat"][names.NODE_PORT])

"""Decisions without packets: what an object means, which endpoints count, what a plan says. Tables."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netproxy.backends.options import node_port_addresses, primary_address
from netproxy.plan import HealthCheck, Verdict, health_checks, plan_port
from netproxy.topology import categorize
from netproxy.trackers.changes import Changes
from netproxy.trackers.endpoints import Endpoint, merge, parse_slice
from netproxy.trackers.nodes import NodeFacts, node_facts
from netproxy.trackers.services import PortName, ServicePort, service_ports, trimmed
from tests.support.proxy import NODE, endpoint, endpoint_slice, node, port, service

HERE = NodeFacts(NODE, zone="a")
NAME = PortName("default", "web", "", "TCP")


def _port(**changes: Any) -> ServicePort:
    return ServicePort(NAME, "IPv4", "10.96.0.10", 80, **changes)


def _endpoint(number: int, **changes: Any) -> Endpoint:
    return Endpoint(f"10.244.0.{number}", 8080, **changes)


LEAVING: dict[str, Any] = {"ready": False, "serving": True, "terminating": True}
UNREADY: dict[str, Any] = {"ready": False, "serving": False}
OUTSIDE_LOCAL: dict[str, Any] = {"external_local": True, "node_port": 30080}

# name: port, endpoints, numbers in cluster, numbers in local, any anywhere
REACH: dict[str, tuple[ServicePort, list[Endpoint], list[int], list[int], bool]] = {
    "ready ones": (_port(), [_endpoint(1), _endpoint(2, **UNREADY)], [1], [], True),
    "none": (_port(), [], [], [], False),
    "none ready, none serving": (_port(), [_endpoint(1, **UNREADY)], [], [], False),
    "terminating is for need only": (_port(), [_endpoint(1, **LEAVING), _endpoint(2)], [2], [], True),
    "need": (_port(), [_endpoint(1, **LEAVING), _endpoint(2, **UNREADY)], [1], [], True),
    "a serving one that is unready for another reason does not count": (
        _port(),
        [_endpoint(1, ready=False, serving=True)],
        [],
        [],
        False,
    ),
    "internal local": (_port(internal_local=True), [_endpoint(1, local=True), _endpoint(2)], [], [1], True),
    "internal local, none here": (_port(internal_local=True), [_endpoint(2)], [], [], True),
    "external local": (_port(**OUTSIDE_LOCAL), [_endpoint(1, local=True), _endpoint(2)], [1, 2], [1], True),
    "external local without an outside address": (_port(external_local=True), [_endpoint(1, local=True)], [1], [], True),
    "local need is judged by local ones": (
        _port(**OUTSIDE_LOCAL),
        [_endpoint(1, local=True, **LEAVING), _endpoint(2)],
        [2],
        [1],
        True,
    ),
    "zone hints": (_port(), [_endpoint(1, zones=("a",)), _endpoint(2, zones=("b",))], [1], [], True),
    "half-written zone hints": (_port(), [_endpoint(1, zones=("a",)), _endpoint(2)], [1, 2], [], True),
    "zone hints for others only": (_port(), [_endpoint(1, zones=("b",)), _endpoint(2, zones=("c",))], [1, 2], [], True),
    "hints of unready ones do not count": (_port(), [_endpoint(1, zones=("a",)), _endpoint(2, **UNREADY)], [1], [], True),
    "node hints before zone hints": (
        _port(),
        [_endpoint(1, zones=("a",), nodes=(NODE,)), _endpoint(2, zones=("a",), nodes=("another",))],
        [1],
        [],
        True,
    ),
}


@pytest.mark.parametrize("case", REACH.values(), ids=REACH)
def test_which_endpoints_count(case: tuple[ServicePort, list[Endpoint], list[int], list[int], bool]) -> None:
    which, endpoints, cluster, local, anywhere = case
    reach = categorize(which, endpoints, HERE)
    numbers = [[int(each.ip.rsplit(".", 1)[1]) for each in part] for part in (reach.cluster, reach.local)]
    assert (numbers, reach.anywhere) == ([cluster, local], anywhere)


VERDICTS: dict[str, tuple[ServicePort, list[Endpoint], Verdict, Verdict]] = {
    "served": (_port(node_port=1), [_endpoint(1)], Verdict.FORWARD, Verdict.FORWARD),
    "nobody": (_port(node_port=1), [], Verdict.REJECT, Verdict.REJECT),
    "others only, outside local": (_port(**OUTSIDE_LOCAL), [_endpoint(1)], Verdict.FORWARD, Verdict.DROP),
    "others only, inside local": (_port(internal_local=True, node_port=1), [_endpoint(1)], Verdict.DROP, Verdict.FORWARD),
}


@pytest.mark.parametrize("case", VERDICTS.values(), ids=VERDICTS)
def test_what_becomes_of_traffic(case: tuple[ServicePort, list[Endpoint], Verdict, Verdict]) -> None:
    which, endpoints, internal, external = case
    rules = plan_port(which, endpoints, HERE)
    assert (rules.internal, rules.external) == (internal, external)


def test_conditions_that_are_absent_mean_ready_and_serving_as_ready() -> None:
    bare = {"addresses": ["10.244.0.1"]}
    unready = {"addresses": ["10.244.0.2"], "conditions": {"ready": False}}
    parsed = parse_slice(endpoint_slice([bare, unready]), NODE)
    assert [(each.ready, each.serving, each.terminating) for each in parsed[0][1]] == [(True, True, False), (False, False, False)]


def test_slices_of_another_family_or_without_a_port_number_are_left_out() -> None:
    assert parse_slice({**endpoint_slice([endpoint("10.244.0.1")]), "addressType": "IPv6"}, NODE) == ()
    assert parse_slice(endpoint_slice([endpoint("10.244.0.1")], ports=[{"name": "x", "protocol": "TCP"}]), NODE) == ()


def test_an_endpoint_in_two_slices_counts_once_and_ready_wins() -> None:
    both = [parse_slice(endpoint_slice([endpoint("10.244.0.1", ready=ready)]), NODE) for ready in (False, True)]
    for order in (both, both[::-1]):
        assert [each.ready for each in merge(order)["", "TCP"]] == [True]


def test_each_family_sees_its_own_half_of_a_dual_stack_service_in_one_spelling() -> None:
    dual = service(
        type="LoadBalancer",
        clusterIPs=["10.96.0.10", "FD00:10:96::0A"],
        externalIPs=["203.0.113.1", "2001:db8:0::1"],
        status_ips=["198.51.100.1", "2001:db8:51:0::1"],
        loadBalancerSourceRanges=["192.0.2.0/24", "2001:db8:2::/64", "::/0"],
    )
    (four,), (six,) = service_ports(dual), service_ports(dual, "IPv6")
    assert (four.cluster_ip, four.external_ips, four.load_balancer_ips) == ("10.96.0.10", ("203.0.113.1",), ("198.51.100.1",))
    assert (six.cluster_ip, six.external_ips, six.load_balancer_ips) == ("fd00:10:96::a", ("2001:db8::1",), ("2001:db8:51::1",))
    assert (four.source_ranges, six.source_ranges) == (("192.0.2.0/24",), ())
    slice_of_six = endpoint_slice([endpoint("fd00:0:0:0::2")])
    assert [each.ip for each in parse_slice(slice_of_six, NODE, "IPv6")[0][1]] == ["fd00::2"]
    assert parse_slice(slice_of_six, NODE) == ()


def test_what_stands_behind_the_zone_of_an_address_reaches_no_rules() -> None:
    line = "%x\nadd rule ip6 kube-proxy services accept"
    spec = {
        "type": "LoadBalancer",
        "externalIPs": ["2001:db8::1" + line],
        "status_ips": ["2001:db8::2" + line],
        "loadBalancerSourceRanges": ["2001:db8::3%x y/128", "2001:db8::/64"],
    }
    (found,) = service_ports(service(clusterIPs=["10.96.0.10", "fd00:10:96::a"], **spec), "IPv6")
    assert (found.external_ips, found.load_balancer_ips, found.source_ranges) == ((), (), ("2001:db8::/64",))
    assert service_ports(service(ip="fd00::1" + line), "IPv6") == ()
    assert not any(endpoints for _, endpoints in parse_slice(endpoint_slice([endpoint("fd00::2" + line)]), NODE, "IPv6"))


RANGES: dict[str, tuple[list[str], tuple[str, ...], tuple[str, ...]]] = {
    "none": ([], (), ()),
    "primary": (["primary"], ("primary",), ("primary",)),
    "one family": (["10.0.0.0/8"], ("10.0.0.0/8",), ()),
    "both": (["fd00::/8", "10.0.0.0/8"], ("10.0.0.0/8",), ("fd00::/8",)),
    "everything": (["10.0.0.0/8", "0.0.0.0/0", "fd00::/8"], (), ("fd00::/8",)),
}


@pytest.mark.parametrize("case", RANGES.values(), ids=RANGES)
def test_addresses_with_node_ports_by_family(case: tuple[list[str], tuple[str, ...], tuple[str, ...]]) -> None:
    ranges, four, six = case
    assert (node_port_addresses(ranges, "IPv4"), node_port_addresses(ranges, "IPv6")) == (four, six)
    facts = NodeFacts(NODE, ("fd00::1", "10.0.0.1", "10.0.0.2"))
    assert (primary_address(facts, "IPv4"), primary_address(facts, "IPv6")) == ("10.0.0.1", "fd00::1")
    assert primary_address(NodeFacts(NODE, ("10.0.0.1",)), "IPv6") == ""


NOT_PROXIED: dict[str, dict[str, Any]] = {
    "headless": {"ip": "None"},
    "external name": {"type": "ExternalName"},
    "another proxy's": {"labels": {"service.kubernetes.io/service-proxy-name": "mine"}},
    "no address yet": {"ip": ""},
    "another family": {"ip": "2001:db8::1"},
}


@pytest.mark.parametrize("spec", NOT_PROXIED.values(), ids=NOT_PROXIED)
def test_services_that_are_not_proxied(spec: dict[str, Any]) -> None:
    assert service_ports(service(**spec)) == ()


def test_the_transform_keeps_all_that_counts() -> None:
    full = service(
        type="LoadBalancer",
        ports=[port(80, "a", node_port=30080), port(53, "b", "UDP")],
        externalIPs=["203.0.113.1", "2001:db8::1"],
        status_ips=["198.51.100.1"],
        loadBalancerSourceRanges=[" 192.0.2.0/24 ", "nonsense"],
        sessionAffinity="ClientIP",
        externalTrafficPolicy="Local",
        healthCheckNodePort=31000,
        selector={"app": "web"},
    )
    found = service_ports(trimmed(full))
    assert found == service_ports(full)
    assert found[0].source_ranges == ("192.0.2.0/24",)
    assert found[0].external_ips == ("203.0.113.1",)
    assert (found[0].affinity_seconds, found[0].health_check_port) == (10800, 31000)


def test_a_balancer_in_proxy_mode_is_not_cut_short() -> None:
    proxied = service(type="LoadBalancer")
    proxied["status"] = {"loadBalancer": {"ingress": [{"ip": "198.51.100.1", "ipMode": "Proxy"}, {"hostname": "lb.example"}]}}
    assert service_ports(proxied)[0].load_balancer_ips == ()


def test_health_check_counts_local_ready_addresses_once() -> None:
    ports = service_ports(service(type="LoadBalancer", ports=[port(80, "a"), port(81, "b")], healthCheckNodePort=31000))
    local = [_endpoint(1, local=True), _endpoint(2, local=True, **LEAVING), _endpoint(3)]
    assert health_checks(ports, {("a", "TCP"): local, ("b", "TCP"): local}) == HealthCheck("default/web", 31000, 1)
    assert health_checks(service_ports(service()), {}) is None


def test_node_facts() -> None:
    obj = node(address="10.0.0.1", zone="a")
    assert node_facts(obj) == NodeFacts(NODE, ("10.0.0.1",), "a", True)
    obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert not node_facts(obj).eligible


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2))))
def test_folding_tells_each_key_once_and_never_a_change_to_the_same(steps: list[tuple[str, int]]) -> None:
    changes: Changes[str, int] = Changes(0)
    state = {"a": 0, "b": 0}
    for key, value in steps:
        changes.set(key, value)
        state[key] = value
    taken = changes.take()
    assert taken == {key: (0, value) for key, value in state.items() if value}
    assert changes.take() == {}
    assert {key: changes.get(key) for key in state} == state

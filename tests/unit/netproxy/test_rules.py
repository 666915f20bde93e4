"""Where packets land: the whole road from objects to rules, walked by the tracer."""

from collections.abc import Sequence
from typing import Any

import pytest

from netproxy.backends.iptables import names
from netproxy.backends.options import Options
from netproxy.plan import Target
from netproxy.trackers.services import PortName
from tests.support.packets import Landing, Packet, Tracer
from tests.support.proxy import CLUSTER_CIDR, Object, TestProxy, endpoint, endpoint_slice, node, port, service

VIP, NODE_IP, OUTSIDE = "10.96.0.10", "10.0.0.1", "10.0.0.9"
POD, OTHER_POD, FAR_POD = "10.244.0.5", "10.244.0.6", "10.244.7.7"
EXTERNAL, BALANCER = "203.0.113.10", "198.51.100.20"


async def programmed(*objects: Object, options: Options | None = None) -> Tracer:
    proxy = TestProxy(options=options)
    proxy.put(node(address=NODE_IP), *objects)
    await proxy.sync()
    return Tracer(proxy.tables.tables)


def everything(**spec: object) -> Object:
    """A service with an address of every kind."""
    return service(
        ip=VIP,
        type="LoadBalancer",
        ports=[port(80, node_port=30080)],
        externalIPs=[EXTERNAL],
        status_ips=[BALANCER],
        **spec,
    )


def packet(source: str, destination: str, number: int = 80, **more: str) -> Packet:
    return Packet(source, destination, number, via="node" if source == NODE_IP else "wire", **more)  # type: ignore[arg-type]


def table(cases: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """Parametrization of cases whose first member is their name."""
    return {"argvalues": [case[1:] for case in cases], "ids": [case[0] for case in cases]}


# from, to, port, masqueraded?
CLUSTER_POLICY = [
    ("a pod calls the cluster IP", OTHER_POD, VIP, 80, False),
    ("the node calls the cluster IP", NODE_IP, VIP, 80, True),
    ("an outsider calls the cluster IP", OUTSIDE, VIP, 80, True),
    ("a pod calls itself through the cluster IP", POD, VIP, 80, True),
    ("an outsider calls the node port", OUTSIDE, NODE_IP, 30080, True),
    ("a pod calls the node port", OTHER_POD, NODE_IP, 30080, True),
    ("the node calls its node port", NODE_IP, NODE_IP, 30080, True),
    ("an outsider calls the external IP", OUTSIDE, EXTERNAL, 80, True),
    ("a pod calls the external IP", OTHER_POD, EXTERNAL, 80, True),
    ("an outsider calls the balancer's IP", OUTSIDE, BALANCER, 80, True),
]


@pytest.mark.parametrize(("source", "destination", "number", "masqueraded"), **table(CLUSTER_POLICY))
async def test_policy_cluster(source: str, destination: str, number: int, masqueraded: bool) -> None:
    tracer = await programmed(everything(), endpoint_slice([endpoint(POD)]))
    assert tracer.trace(packet(source, destination, number)) == {Landing("ACCEPT", f"{POD}:8080", masqueraded)}


LOCAL_POLICY = [
    ("an outsider calls the node port", OUTSIDE, NODE_IP, 30080, {Landing("ACCEPT", f"{POD}:8080", False)}),
    ("an outsider calls the external IP", OUTSIDE, EXTERNAL, 80, {Landing("ACCEPT", f"{POD}:8080", False)}),
    ("an outsider calls the balancer's IP", OUTSIDE, BALANCER, 80, {Landing("ACCEPT", f"{POD}:8080", False)}),
    (
        "a pod is not outside: every endpoint",
        OTHER_POD,
        BALANCER,
        80,
        {Landing("ACCEPT", f"{POD}:8080", False), Landing("ACCEPT", f"{FAR_POD}:8080", False)},
    ),
    (
        "nor is the node",
        NODE_IP,
        NODE_IP,
        30080,
        {Landing("ACCEPT", f"{POD}:8080", True), Landing("ACCEPT", f"{FAR_POD}:8080", True)},
    ),
]


@pytest.mark.parametrize(("source", "destination", "number", "expected"), **table(LOCAL_POLICY))
async def test_external_policy_local(source: str, destination: str, number: int, expected: set[Landing]) -> None:
    slices = endpoint_slice([endpoint(POD), endpoint(FAR_POD, node="another")])
    tracer = await programmed(everything(externalTrafficPolicy="Local"), slices)
    assert tracer.trace(packet(source, destination, number)) == expected


async def test_external_policy_local_without_local_endpoints_drops_outsiders_only() -> None:
    tracer = await programmed(everything(externalTrafficPolicy="Local"), endpoint_slice([endpoint(FAR_POD, node="another")]))
    for destination, number in ((NODE_IP, 30080), (EXTERNAL, 80), (BALANCER, 80)):
        assert tracer.where(packet(OUTSIDE, destination, number)) == {"DROP"}
        assert tracer.where(packet(OTHER_POD, destination, number)) == {f"{FAR_POD}:8080"}
    assert tracer.where(packet(OTHER_POD, VIP)) == {f"{FAR_POD}:8080"}


async def test_internal_policy_local() -> None:
    mine, far = endpoint(POD), endpoint(FAR_POD, node="another")
    tracer = await programmed(service(ip=VIP, internalTrafficPolicy="Local"), endpoint_slice([mine, far]))
    assert tracer.where(packet(OTHER_POD, VIP)) == {f"{POD}:8080"}
    tracer = await programmed(service(ip=VIP, internalTrafficPolicy="Local"), endpoint_slice([far]))
    assert tracer.where(packet(OTHER_POD, VIP)) == {"DROP"}


async def test_without_endpoints_every_address_refuses() -> None:
    tracer = await programmed(everything())
    for source in (OTHER_POD, NODE_IP, OUTSIDE):
        for destination, number in ((VIP, 80), (NODE_IP, 30080)):
            assert tracer.where(packet(source, destination, number)) == {"REJECT"}, (source, destination)
    for destination in (EXTERNAL, BALANCER):
        assert tracer.where(packet(OUTSIDE, destination)) == {"REJECT"}


async def test_source_ranges_bind_the_balancer_address_alone() -> None:
    tracer = await programmed(everything(loadBalancerSourceRanges=["192.0.2.0/24"]), endpoint_slice([endpoint(POD)]))
    assert tracer.where(packet("192.0.2.7", BALANCER)) == {f"{POD}:8080"}
    assert tracer.where(packet(OUTSIDE, BALANCER)) == {"DROP"}
    assert tracer.where(packet(OUTSIDE, EXTERNAL)) == {f"{POD}:8080"}
    assert tracer.where(packet(OUTSIDE, NODE_IP, 30080)) == {f"{POD}:8080"}
    # the balancer's address may be this node's: its own requests then carry it as source, allowed if the node is
    assert tracer.where(packet(BALANCER, BALANCER)) == {"DROP"}
    tracer = await programmed(everything(loadBalancerSourceRanges=["10.0.0.0/24"]), endpoint_slice([endpoint(POD)]))
    assert tracer.where(packet(BALANCER, BALANCER)) == {f"{POD}:8080"}


async def test_a_range_of_everything_restricts_nothing() -> None:
    tracer = await programmed(everything(loadBalancerSourceRanges=["0.0.0.0/0"]), endpoint_slice([endpoint(POD)]))
    assert tracer.where(packet(OUTSIDE, BALANCER)) == {f"{POD}:8080"}


async def test_session_affinity_returns_a_known_client_to_its_endpoint() -> None:
    slices = endpoint_slice([endpoint(POD), endpoint(OTHER_POD)])
    tracer = await programmed(service(ip=VIP, sessionAffinity="ClientIP"), slices)
    assert tracer.where(packet(FAR_POD, VIP)) == {f"{POD}:8080", f"{OTHER_POD}:8080"}
    chain = names.endpoint_chain(PortName("default", "web", "", "TCP"), Target(OTHER_POD, 8080))
    assert tracer.where(packet(FAR_POD, VIP, known=chain)) == {f"{OTHER_POD}:8080"}
    assert "--seconds 10800" in " ".join(tracer.tables["nat"][names.SVC + names.port_hash(PortName("default", "web", "", "TCP"))])


async def test_protocols_with_the_same_number_do_not_mix() -> None:
    ports = [port(53, "tcp"), port(53, "udp", "UDP"), port(53, "sctp", "SCTP")]
    backing = [port(5301, "tcp"), port(5302, "udp", "UDP"), port(5303, "sctp", "SCTP")]
    tracer = await programmed(service(ip=VIP, ports=ports), endpoint_slice([endpoint(POD)], ports=backing))
    landed = {protocol: tracer.where(packet(OTHER_POD, VIP, 53, protocol=protocol)) for protocol in ("tcp", "udp", "sctp")}
    assert landed == {"tcp": {f"{POD}:5301"}, "udp": {f"{POD}:5302"}, "sctp": {f"{POD}:5303"}}


async def test_loopback_is_not_reachable_from_the_wire() -> None:
    """CVE-2020-8558: route_localnet, which node ports on 127.0.0.1 need, must not open the node's loopback to neighbours."""
    tracer = await programmed(service(ip=VIP))
    assert tracer.where(packet(OUTSIDE, "127.0.0.1", 22)) == {"DROP"}
    assert tracer.where(Packet("127.0.0.1", "127.0.0.1", 22, via="node")) == {"127.0.0.1:22"}


async def test_loopback_node_ports_can_be_switched_off() -> None:
    for options in (
        Options(cluster_cidr=CLUSTER_CIDR, localhost_node_ports=False),
        Options(cluster_cidr=CLUSTER_CIDR, node_port_addresses=("10.0.0.0/24",)),
        Options(cluster_cidr=CLUSTER_CIDR, node_port_addresses=("primary",)),
    ):
        tracer = await programmed(everything(), endpoint_slice([endpoint(POD)]), options=options)
        assert tracer.where(Packet("127.0.0.1", "127.0.0.1", 30080, via="node")) == {"127.0.0.1:30080"}
        assert tracer.where(packet(OUTSIDE, NODE_IP, 30080)) == {f"{POD}:8080"}
    tracer = await programmed(everything(), endpoint_slice([endpoint(POD)]))
    assert tracer.where(Packet("127.0.0.1", "127.0.0.1", 30080, via="node")) == {f"{POD}:8080"}


async def test_masquerade_all_and_no_cluster_range() -> None:
    tracer = await programmed(service(ip=VIP), endpoint_slice([endpoint(POD)]), options=Options(masquerade_all=True))
    assert tracer.trace(packet(OTHER_POD, VIP)) == {Landing("ACCEPT", f"{POD}:8080", True)}
    tracer = await programmed(service(ip=VIP), endpoint_slice([endpoint(POD)]), options=Options())
    assert tracer.trace(packet(OUTSIDE, VIP)) == {Landing("ACCEPT", f"{POD}:8080", False)}


async def test_pods_may_be_told_by_the_interface_they_send_through() -> None:
    for interface in ("cni0", "cni+"):
        options = Options(pod_interface=interface)
        tracer = await programmed(everything(externalTrafficPolicy="Local"), endpoint_slice([endpoint(POD)]), options=options)
        landings = {name: tracer.trace(packet(OUTSIDE, VIP, interface=name)) for name in ("cni0", "eth0")}
        assert landings == {
            "cni0": {Landing("ACCEPT", f"{POD}:8080", False)},
            "eth0": {Landing("ACCEPT", f"{POD}:8080", True)},
        }


async def test_packets_without_a_place_are_dropped_and_other_traffic_passes() -> None:
    tracer = await programmed(everything(), endpoint_slice([endpoint(POD)]))
    assert tracer.where(packet(POD, OUTSIDE, 443, state="INVALID")) == {"DROP"}
    assert tracer.trace(packet(POD, OUTSIDE, 443)) == {Landing("ACCEPT", f"{OUTSIDE}:443", False)}
    assert tracer.trace(packet(OUTSIDE, NODE_IP, 22)) == {Landing("ACCEPT", f"{NODE_IP}:22", False)}


async def test_terminating_endpoints_serve_only_when_nothing_else_does() -> None:
    leaving = endpoint(POD, ready=False, serving=True, terminating=True)
    tracer = await programmed(service(ip=VIP), endpoint_slice([leaving, endpoint(OTHER_POD)]))
    assert tracer.where(packet(FAR_POD, VIP)) == {f"{OTHER_POD}:8080"}
    tracer = await programmed(service(ip=VIP), endpoint_slice([leaving, endpoint(OTHER_POD, ready=False, serving=False)]))
    assert tracer.where(packet(FAR_POD, VIP)) == {f"{POD}:8080"}
    gone = endpoint(POD, ready=False, serving=False, terminating=True)
    tracer = await programmed(service(ip=VIP), endpoint_slice([gone]))
    assert tracer.where(packet(FAR_POD, VIP)) == {"REJECT"}


async def test_chances_are_even() -> None:
    proxy = TestProxy()
    proxy.put(service(ip=VIP), endpoint_slice([endpoint(f"10.244.0.{n}") for n in range(2, 6)]))
    await proxy.sync()
    chain = proxy.tables.tables["nat"][names.SVC + names.port_hash(PortName("default", "web", "", "TCP"))]
    chances = [float(rule.split("--probability ")[1].split()[0]) for rule in chain if "--probability" in rule]
    left, shares = 1.0, []
    for chance in chances:
        shares.append(left * chance)
        left *= 1 - chance
    assert [*shares, left] == pytest.approx([0.25] * 4)


async def test_names_are_upstreams() -> None:
    """The example of upstream's own documentation and tests: ns1/svc1:p80 over TCP."""
    assert names.port_hash(PortName("ns1", "svc1", "p80", "TCP")) == "XPGD46QRK7WJZT7O"
    assert names.endpoint_chain(PortName("ns1", "svc1", "p80", "TCP"), Target("10.180.0.1", 80)) == "KUBE-SEP-SXIVWICOYRO3J4NJ"

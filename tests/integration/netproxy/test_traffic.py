"""Real packets through real rules, between network namespaces: what a client of a Service sees."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from component.clock import RealClock
from component.process import RealRunner
from netproxy.backends.interface import Backend
from netproxy.backends.iptables import IPTablesBackend
from netproxy.backends.ipvs import IPVSBackend, Kernel
from netproxy.backends.ipvs.settings import IPVSSettings
from netproxy.backends.nftables import NFTablesBackend
from netproxy.backends.options import Options
from netproxy.kernel.addresses import RealLocalAddresses
from netproxy.kernel.conntrack import RealConntrack
from netproxy.kernel.ipset import RealIPSets
from netproxy.kernel.iptables import Mode, RealIPTables
from netproxy.kernel.ipvs import IPVSError, RealIPVS
from netproxy.kernel.nft import RealNFT
from netproxy.kernel.sysctl import RealSysctl
from tests.support.podnet import V4, V6, AddressPlan, PodNetwork, pod_network
from tests.support.proxy import TestProxy, endpoint, endpoint_slice, node, port, service

pytestmark = pytest.mark.root


class Cluster:
    """One family's proxy on real tables. ``kind`` is the backend, with the variant of iptables."""

    def __init__(self, net: PodNetwork, kind: str) -> None:
        self.net, self.kind, self.plan = net, kind, net.plan
        self.vip, self.node_ip = net.plan.service(10), net.plan.node
        options = Options(net.plan.family, cluster_cidr=net.plan.pod_cidr)
        self.proxy = TestProxy(_backend(kind, options), RealConntrack(net.plan.family), RealClock())
        self.proxy.put(node(address=self.node_ip))
        self.localhost_node_ports = kind.startswith("iptables") and net.plan is V4


def _backend(kind: str, options: Options) -> Backend:
    if kind == "nftables":
        return NFTablesBackend(RealNFT(RealRunner(), options.family), RealSysctl(), options, RealClock())
    if kind == "ipvs":
        sets, tables = RealIPSets(RealRunner(), options.family), RealIPTables(RealRunner(), options.family, "nft")
        kernel = Kernel(RealIPVS(options.family), sets, tables, RealLocalAddresses(options.family), RealSysctl())
        return IPVSBackend(kernel, options, IPVSSettings(), RealClock())
    mode = {"iptables-nft": "nft", "iptables-legacy": "legacy"}[kind]
    return IPTablesBackend(RealIPTables(RealRunner(), options.family, cast("Mode", mode)), RealSysctl(), options)


IPVS = [("ipvs", V4), ("ipvs", V6)]
EVERY = [("iptables-nft", V4), ("iptables-nft", V6), ("iptables-legacy", V4), ("nftables", V4), ("nftables", V6), *IPVS]
LEAN = [("iptables-nft", V4), ("nftables", V4), ("nftables", V6), *IPVS]


def _name(value: object) -> str:
    return value.family if isinstance(value, AddressPlan) else str(value)


@pytest.fixture(params=EVERY, ids=lambda each: "-".join(map(_name, each)))
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    async with _made(*request.param) as made:
        yield made


@pytest.fixture(params=LEAN, ids=lambda each: "-".join(map(_name, each)))
async def lean(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    """For what a variant of iptables cannot change."""
    async with _made(*request.param) as made:
        yield made


@asynccontextmanager
async def _made(kind: str, plan: AddressPlan) -> AsyncIterator[Cluster]:
    with pod_network(plan) as net:
        if kind == "ipvs":
            try:
                await RealIPVS().servers()
            except IPVSError as error:
                pytest.skip(f"{error}: `make vm-ipvs` has a kernel with it")
        yield Cluster(net, kind)


async def test_cluster_ip_and_node_port_answer_from_everywhere(cluster: Cluster) -> None:
    server, client = cluster.net.pod(), cluster.net.pod()
    server.serve_tcp(8080)
    cluster.proxy.put(
        service(ip=cluster.vip, type="NodePort", ports=[port(80, node_port=30080)]), endpoint_slice([endpoint(server.ip)])
    )
    await cluster.proxy.sync()
    outside = cluster.net.outside
    seen = {
        "pod to cluster IP": client.ask_tcp(cluster.vip, 80),
        "node to cluster IP": cluster.net.node.ask_tcp(cluster.vip, 80),
        "outside to cluster IP": outside.ask_tcp(cluster.vip, 80),
        "pod to node port": client.ask_tcp(cluster.node_ip, 30080),
        "outside to node port": outside.ask_tcp(cluster.node_ip, 30080),
        "node to its own node port": cluster.net.node.ask_tcp(cluster.node_ip, 30080),
        "loopback to node port": cluster.net.node.ask_tcp("::1" if cluster.plan is V6 else "127.0.0.1", 30080),
        "hairpin": server.ask_tcp(cluster.vip, 80),
    }
    bridge = cluster.plan.bridge
    assert seen == {
        "pod to cluster IP": (server.ip, client.ip),
        "node to cluster IP": (server.ip, bridge),
        "outside to cluster IP": (server.ip, bridge),
        "pod to node port": (server.ip, bridge),
        "outside to node port": (server.ip, bridge),
        "node to its own node port": (server.ip, bridge),
        "loopback to node port": (server.ip, bridge) if cluster.localhost_node_ports else ("ConnectionRefusedError", ""),
        "hairpin": (server.ip, bridge),
    }


async def test_udp_answers_and_forgets_an_endpoint_that_is_gone(cluster: Cluster) -> None:
    first, second, client = cluster.net.pod(), cluster.net.pod(), cluster.net.pod()
    first.serve_udp(5353)
    second.serve_udp(5353)
    dns = service(ip=cluster.vip, type="NodePort", ports=[port(53, protocol="UDP", node_port=30053)])
    ports = [port(5353, protocol="UDP")]
    cluster.proxy.put(dns, endpoint_slice([endpoint(first.ip)], ports=ports))
    await cluster.proxy.sync()
    assert client.ask_udp(cluster.vip, 53, source_port=4000) == (first.ip, client.ip)
    assert cluster.net.outside.ask_udp(cluster.node_ip, 30053, source_port=4000) == (first.ip, cluster.plan.bridge)
    cluster.proxy.put(endpoint_slice([endpoint(second.ip)], ports=ports))
    await cluster.proxy.sync()
    assert client.ask_udp(cluster.vip, 53, source_port=4000) == (second.ip, client.ip)
    assert cluster.net.outside.ask_udp(cluster.node_ip, 30053, source_port=4000) == (second.ip, cluster.plan.bridge)


async def test_udp_client_that_asked_too_early_is_served_once_there_are_endpoints(lean: Cluster) -> None:
    server, client = lean.net.pod(), lean.net.pod()
    server.serve_udp(5353)
    lean.proxy.put(service(ip=lean.vip, ports=[port(53, protocol="UDP")]))
    # before any rule: the flow is tracked as leading nowhere
    assert client.ask_udp(lean.vip, 53, 0.3, source_port=4000)[0] in ("TimeoutError", "ConnectionRefusedError", "OSError")
    lean.proxy.put(endpoint_slice([endpoint(server.ip)], ports=[port(5353, protocol="UDP")]))
    await lean.proxy.sync()
    assert client.ask_udp(lean.vip, 53, source_port=4000) == (server.ip, client.ip)


async def test_service_without_endpoints_refuses_at_once(cluster: Cluster) -> None:
    client = cluster.net.pod()
    cluster.proxy.put(service(ip=cluster.vip, type="NodePort", ports=[port(80, node_port=30080)]))
    await cluster.proxy.sync()
    assert client.ask_tcp(cluster.vip, 80, 3)[0] == "ConnectionRefusedError"
    assert cluster.net.node.ask_tcp(cluster.vip, 80, 3)[0] == "ConnectionRefusedError"
    assert cluster.net.outside.ask_tcp(cluster.node_ip, 30080, 3)[0] == "ConnectionRefusedError"


async def test_session_affinity_keeps_a_client_with_its_endpoint_until_it_is_gone(cluster: Cluster) -> None:
    pods = [cluster.net.pod() for _ in range(3)]
    client = cluster.net.pod()
    for pod in pods:
        pod.serve_tcp(8080)
    cluster.proxy.put(service(ip=cluster.vip, sessionAffinity="ClientIP"), endpoint_slice([endpoint(pod.ip) for pod in pods]))
    await cluster.proxy.sync()
    chosen = {client.ask_tcp(cluster.vip, 80)[0] for _ in range(8)}
    assert len(chosen) == 1
    rest = [pod for pod in pods if pod.ip not in chosen]
    cluster.proxy.put(endpoint_slice([endpoint(pod.ip) for pod in rest]))
    await cluster.proxy.sync()
    moved = {client.ask_tcp(cluster.vip, 80)[0] for _ in range(4)}
    assert len(moved) == 1
    assert moved < {pod.ip for pod in rest}


async def test_every_endpoint_gets_its_share(lean: Cluster) -> None:
    pods = [lean.net.pod() for _ in range(2)]
    for pod in pods:
        pod.serve_tcp(8080)
    lean.proxy.put(service(ip=lean.vip), endpoint_slice([endpoint(pod.ip) for pod in pods]))
    await lean.proxy.sync()
    seen = {lean.net.node.ask_tcp(lean.vip, 80)[0] for _ in range(20)}
    assert seen == {pod.ip for pod in pods}


async def test_local_policy_keeps_the_source_address_and_refuses_without_local_endpoints(lean: Cluster) -> None:
    server, client = lean.net.pod(), lean.net.pod()
    server.serve_tcp(8080)
    local = service(ip=lean.vip, type="NodePort", ports=[port(80, node_port=30080)], externalTrafficPolicy="Local")
    lean.proxy.put(local, endpoint_slice([endpoint(server.ip)]))
    await lean.proxy.sync()
    assert lean.net.outside.ask_tcp(lean.node_ip, 30080) == (server.ip, lean.plan.outside)
    assert client.ask_tcp(lean.node_ip, 30080) == (server.ip, client.ip)
    lean.proxy.put(endpoint_slice([endpoint(server.ip, node="another")]))
    await lean.proxy.sync()
    if lean.kind != "ipvs":  # which leads outsiders to the other node, as upstream's: there the answer takes another way
        assert lean.net.outside.ask_tcp(lean.node_ip, 30080, 0.5)[0] == "TimeoutError"
    assert client.ask_tcp(lean.node_ip, 30080) == (server.ip, client.ip)


async def test_established_connections_survive_the_removal_of_their_endpoint_and_a_resync(lean: Cluster) -> None:
    server = lean.net.pod()
    server.echo_tcp(8080)
    lean.proxy.put(service(ip=lean.vip), endpoint_slice([endpoint(server.ip)]))
    await lean.proxy.sync()
    with socket.create_connection((lean.vip, 80), timeout=3) as connection:
        connection.sendall(b"one")
        assert connection.recv(10) == b"one"
        leaving = endpoint(server.ip, ready=False, serving=True, terminating=True)
        lean.proxy.put(endpoint_slice([leaving, endpoint(lean.plan.pod(99))]))
        await lean.proxy.sync()
        connection.sendall(b"two")
        assert connection.recv(10) == b"two"
        await lean.proxy.resync()
        connection.sendall(b"three")
        assert connection.recv(10) == b"three"


async def test_foreign_flush_is_noticed_and_mended(cluster: Cluster) -> None:
    server = cluster.net.pod()
    server.serve_tcp(8080)
    cluster.proxy.put(service(ip=cluster.vip), endpoint_slice([endpoint(server.ip)]))
    await cluster.proxy.sync()
    backend = cluster.proxy.backend
    assert await backend.intact()
    assert cluster.net.node.ask_tcp(cluster.vip, 80)[0] == server.ip
    await backend.cleanup()
    assert not await backend.intact()
    await backend.cleanup()


async def test_one_service_that_the_kernel_refuses_does_not_stop_the_others(cluster: Cluster) -> None:
    server = cluster.net.pod()
    server.serve_tcp(8080)
    impossible = {"clientIP": {"timeoutSeconds": 10**12}}
    for number in range(5):
        bad = {"sessionAffinity": "ClientIP", "sessionAffinityConfig": impossible} if number == 3 else {}
        cluster.proxy.put(
            service(f"s{number}", cluster.plan.service(10 + number), **bad), endpoint_slice([endpoint(server.ip)], f"s{number}")
        )
    await cluster.proxy.sync()
    answers = [cluster.net.node.ask_tcp(cluster.plan.service(10 + number), 80, 0.3)[0] for number in range(5)]
    assert [answer == server.ip for answer in answers] == [True, True, True, False, True]


@pytest.mark.parametrize("cluster", [each for each in EVERY if each[1] is V4 and each[0].startswith("iptables")], indirect=True)
async def test_loopback_of_the_node_is_closed_to_neighbours(cluster: Cluster) -> None:
    """CVE-2020-8558. The first half shows that the attack works where the rules are missing."""
    node_host, neighbour = cluster.net.node, cluster.net.outside
    node_host.serve_tcp(9999, "127.0.0.1")
    neighbour.ip_command("addr", "del", "127.0.0.1/8", "dev", "lo")
    neighbour.ip_command("route", "add", "127.0.0.1/32", "via", cluster.node_ip)
    neighbour.sysctl("net/ipv4/conf/all/route_localnet", "1")
    await cluster.proxy.sync()
    assert neighbour.ask_tcp("127.0.0.1", 9999, 0.5)[0] == "TimeoutError"
    await cluster.proxy.backend.cleanup()
    assert neighbour.ask_tcp("127.0.0.1", 9999, 0.5)[0] == node_host.ip


async def test_balancer_address_and_its_source_ranges(cluster: Cluster) -> None:
    server = cluster.net.pod()
    server.serve_tcp(8080)
    balanced = {"type": "LoadBalancer", "ports": [port(80, node_port=30080)], "status_ips": [cluster.plan.balancer]}
    cluster.proxy.put(service(ip=cluster.vip, **balanced), endpoint_slice([endpoint(server.ip)]))
    await cluster.proxy.sync()
    assert cluster.net.outside.ask_tcp(cluster.plan.balancer, 80)[0] == server.ip
    cluster.proxy.put(service(ip=cluster.vip, **balanced, loadBalancerSourceRanges=[cluster.plan.elsewhere]))
    await cluster.proxy.sync()
    assert cluster.net.outside.ask_tcp(cluster.plan.balancer, 80, 0.5)[0] == "TimeoutError"
    cluster.proxy.put(service(ip=cluster.vip, **balanced, loadBalancerSourceRanges=[cluster.plan.neighbours]))
    await cluster.proxy.sync()
    assert cluster.net.outside.ask_tcp(cluster.plan.balancer, 80)[0] == server.ip


async def test_a_rolling_update_loses_no_request(lean: Cluster) -> None:
    """Old pods leave the rules before they stop serving; whoever connects meets one that serves."""
    old, new = [lean.net.pod() for _ in range(2)], [lean.net.pod() for _ in range(2)]
    for pod in (*old, *new):
        pod.serve_tcp(8080)
    lean.proxy.put(service(ip=lean.vip), endpoint_slice([endpoint(pod.ip) for pod in old]))
    await lean.proxy.sync()
    client = lean.net.pod().asking_tcp(lean.vip, 80)
    client.wait(10)
    for step in range(2):
        serving = [endpoint(pod.ip) for pod in (*old[step:], *new[: step + 1])]
        lean.proxy.put(endpoint_slice(serving))
        await lean.proxy.sync()
        leaving = endpoint(old[step].ip, ready=False, serving=True, terminating=True)
        lean.proxy.put(endpoint_slice([leaving, *[each for each in serving if each["addresses"] != [old[step].ip]]]))
        await lean.proxy.sync()
        client.wait(10)  # with what was on its way when the rules changed
        old[step].stop_serving()
        client.wait(10)
    assert client.stop()[1] == 0

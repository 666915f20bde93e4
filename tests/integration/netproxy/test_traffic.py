"""Real packets through real rules, between network namespaces: what a client of a Service sees."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from component.clock import RealClock
from component.process import RealRunner
from netproxy.backends.iptables import IPTablesBackend, Options
from netproxy.kernel.conntrack import RealConntrack
from netproxy.kernel.iptables import Mode, RealIPTables
from netproxy.kernel.sysctl import RealSysctl
from tests.support.podnet import NODE_IP, OUTSIDE_IP, POD_CIDR, PodNetwork, pod_network
from tests.support.proxy import TestProxy, endpoint, endpoint_slice, node, port, service

pytestmark = pytest.mark.root
VIP = "10.96.0.10"


class Cluster:
    def __init__(self, net: PodNetwork, mode: Mode) -> None:
        self.net = net
        backend = IPTablesBackend(RealIPTables(RealRunner(), "IPv4", mode), RealSysctl(), Options(cluster_cidr=POD_CIDR))
        self.proxy = TestProxy(backend, RealConntrack(), RealClock())
        self.proxy.put(node(address=NODE_IP))


@pytest.fixture(params=["nft", "legacy"])
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    with pod_network() as net:
        yield Cluster(net, request.param)


@pytest.fixture
async def nft() -> AsyncIterator[Cluster]:
    with pod_network() as net:
        yield Cluster(net, "nft")


async def test_cluster_ip_and_node_port_answer_from_everywhere(cluster: Cluster) -> None:
    server, client = cluster.net.pod(), cluster.net.pod()
    server.serve_tcp(8080)
    cluster.proxy.put(service(ip=VIP, type="NodePort", ports=[port(80, node_port=30080)]), endpoint_slice([endpoint(server.ip)]))
    await cluster.proxy.sync()
    outside = cluster.net.outside
    seen = {
        "pod to cluster IP": client.ask_tcp(VIP, 80),
        "node to cluster IP": cluster.net.node.ask_tcp(VIP, 80),
        "outside to cluster IP": outside.ask_tcp(VIP, 80),
        "pod to node port": client.ask_tcp(NODE_IP, 30080),
        "outside to node port": outside.ask_tcp(NODE_IP, 30080),
        "node to its own node port": cluster.net.node.ask_tcp(NODE_IP, 30080),
        "loopback to node port": cluster.net.node.ask_tcp("127.0.0.1", 30080),
        "hairpin": server.ask_tcp(VIP, 80),
    }
    bridge = "10.244.0.1"
    assert seen == {
        "pod to cluster IP": (server.ip, client.ip),
        "node to cluster IP": (server.ip, bridge),
        "outside to cluster IP": (server.ip, bridge),
        "pod to node port": (server.ip, bridge),
        "outside to node port": (server.ip, bridge),
        "node to its own node port": (server.ip, bridge),
        "loopback to node port": (server.ip, bridge),
        "hairpin": (server.ip, bridge),
    }


async def test_udp_answers_and_forgets_an_endpoint_that_is_gone(cluster: Cluster) -> None:
    first, second, client = cluster.net.pod(), cluster.net.pod(), cluster.net.pod()
    first.serve_udp(5353)
    second.serve_udp(5353)
    dns = service(ip=VIP, type="NodePort", ports=[port(53, protocol="UDP", node_port=30053)])
    ports = [port(5353, protocol="UDP")]
    cluster.proxy.put(dns, endpoint_slice([endpoint(first.ip)], ports=ports))
    await cluster.proxy.sync()
    assert client.ask_udp(VIP, 53, source_port=4000) == (first.ip, client.ip)
    assert cluster.net.outside.ask_udp(NODE_IP, 30053, source_port=4000) == (first.ip, "10.244.0.1")
    cluster.proxy.put(endpoint_slice([endpoint(second.ip)], ports=ports))
    await cluster.proxy.sync()
    assert client.ask_udp(VIP, 53, source_port=4000) == (second.ip, client.ip)
    assert cluster.net.outside.ask_udp(NODE_IP, 30053, source_port=4000) == (second.ip, "10.244.0.1")


async def test_udp_client_that_asked_too_early_is_served_once_there_are_endpoints(nft: Cluster) -> None:
    server, client = nft.net.pod(), nft.net.pod()
    server.serve_udp(5353)
    nft.proxy.put(service(ip=VIP, ports=[port(53, protocol="UDP")]))
    # before any rule: the flow is tracked as leading nowhere
    assert client.ask_udp(VIP, 53, 0.3, source_port=4000)[0] in ("TimeoutError", "ConnectionRefusedError", "OSError")
    nft.proxy.put(endpoint_slice([endpoint(server.ip)], ports=[port(5353, protocol="UDP")]))
    await nft.proxy.sync()
    assert client.ask_udp(VIP, 53, source_port=4000) == (server.ip, client.ip)


async def test_service_without_endpoints_refuses_at_once(cluster: Cluster) -> None:
    client = cluster.net.pod()
    cluster.proxy.put(service(ip=VIP, type="NodePort", ports=[port(80, node_port=30080)]))
    await cluster.proxy.sync()
    assert client.ask_tcp(VIP, 80, 3)[0] == "ConnectionRefusedError"
    assert cluster.net.node.ask_tcp(VIP, 80, 3)[0] == "ConnectionRefusedError"
    assert cluster.net.outside.ask_tcp(NODE_IP, 30080, 3)[0] == "ConnectionRefusedError"


async def test_session_affinity_keeps_a_client_with_its_endpoint_until_it_is_gone(cluster: Cluster) -> None:
    pods = [cluster.net.pod() for _ in range(3)]
    client = cluster.net.pod()
    for pod in pods:
        pod.serve_tcp(8080)
    cluster.proxy.put(service(ip=VIP, sessionAffinity="ClientIP"), endpoint_slice([endpoint(pod.ip) for pod in pods]))
    await cluster.proxy.sync()
    chosen = {client.ask_tcp(VIP, 80)[0] for _ in range(8)}
    assert len(chosen) == 1
    rest = [pod for pod in pods if pod.ip not in chosen]
    cluster.proxy.put(endpoint_slice([endpoint(pod.ip) for pod in rest]))
    await cluster.proxy.sync()
    moved = {client.ask_tcp(VIP, 80)[0] for _ in range(4)}
    assert len(moved) == 1
    assert moved < {pod.ip for pod in rest}


async def test_every_endpoint_gets_its_share(nft: Cluster) -> None:
    pods = [nft.net.pod() for _ in range(2)]
    for pod in pods:
        pod.serve_tcp(8080)
    nft.proxy.put(service(ip=VIP), endpoint_slice([endpoint(pod.ip) for pod in pods]))
    await nft.proxy.sync()
    seen = {nft.net.node.ask_tcp(VIP, 80)[0] for _ in range(20)}
    assert seen == {pod.ip for pod in pods}


async def test_local_policy_keeps_the_source_address_and_refuses_without_local_endpoints(nft: Cluster) -> None:
    server, client = nft.net.pod(), nft.net.pod()
    server.serve_tcp(8080)
    local = service(ip=VIP, type="NodePort", ports=[port(80, node_port=30080)], externalTrafficPolicy="Local")
    nft.proxy.put(local, endpoint_slice([endpoint(server.ip)]))
    await nft.proxy.sync()
    assert nft.net.outside.ask_tcp(NODE_IP, 30080) == (server.ip, OUTSIDE_IP)
    assert client.ask_tcp(NODE_IP, 30080) == (server.ip, client.ip)
    nft.proxy.put(endpoint_slice([endpoint(server.ip, node="another")]))
    await nft.proxy.sync()
    assert nft.net.outside.ask_tcp(NODE_IP, 30080, 0.5)[0] == "TimeoutError"
    assert client.ask_tcp(NODE_IP, 30080) == (server.ip, client.ip)


async def test_established_connections_survive_the_removal_of_their_endpoint_and_a_resync(nft: Cluster) -> None:
    server = nft.net.pod()
    server.echo_tcp(8080)
    nft.proxy.put(service(ip=VIP), endpoint_slice([endpoint(server.ip)]))
    await nft.proxy.sync()
    with socket.create_connection((VIP, 80), timeout=3) as connection:
        connection.sendall(b"one")
        assert connection.recv(10) == b"one"
        leaving = endpoint(server.ip, ready=False, serving=True, terminating=True)
        nft.proxy.put(endpoint_slice([leaving, endpoint("10.244.9.9")]))
        await nft.proxy.sync()
        connection.sendall(b"two")
        assert connection.recv(10) == b"two"
        await nft.proxy.resync()
        connection.sendall(b"three")
        assert connection.recv(10) == b"three"


async def test_foreign_flush_is_noticed_and_mended(cluster: Cluster) -> None:
    server = cluster.net.pod()
    server.serve_tcp(8080)
    cluster.proxy.put(service(ip=VIP), endpoint_slice([endpoint(server.ip)]))
    await cluster.proxy.sync()
    backend = cluster.proxy.backend
    assert await backend.intact()
    assert cluster.net.node.ask_tcp(VIP, 80)[0] == server.ip
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
            service(f"s{number}", f"10.96.0.{10 + number}", **bad), endpoint_slice([endpoint(server.ip)], f"s{number}")
        )
    await cluster.proxy.sync()
    answers = [cluster.net.node.ask_tcp(f"10.96.0.{10 + number}", 80, 0.3)[0] for number in range(5)]
    assert [answer == server.ip for answer in answers] == [True, True, True, False, True]


async def test_loopback_of_the_node_is_closed_to_neighbours(cluster: Cluster) -> None:
    """CVE-2020-8558. The first half shows that the attack works where the rules are missing."""
    node_host, neighbour = cluster.net.node, cluster.net.outside
    node_host.serve_tcp(9999, "127.0.0.1")
    neighbour.ip_command("addr", "del", "127.0.0.1/8", "dev", "lo")
    neighbour.ip_command("route", "add", "127.0.0.1/32", "via", NODE_IP)
    neighbour.sysctl("net/ipv4/conf/all/route_localnet", "1")
    await cluster.proxy.sync()
    assert neighbour.ask_tcp("127.0.0.1", 9999, 0.5)[0] == "TimeoutError"
    await cluster.proxy.backend.cleanup()
    assert neighbour.ask_tcp("127.0.0.1", 9999, 0.5)[0] == node_host.ip


async def test_balancer_address_and_its_source_ranges(cluster: Cluster) -> None:
    server = cluster.net.pod()
    server.serve_tcp(8080)
    balanced = {"type": "LoadBalancer", "ports": [port(80, node_port=30080)], "status_ips": ["198.51.100.20"]}
    cluster.proxy.put(service(ip=VIP, **balanced), endpoint_slice([endpoint(server.ip)]))
    await cluster.proxy.sync()
    assert cluster.net.outside.ask_tcp("198.51.100.20", 80)[0] == server.ip
    cluster.proxy.put(service(ip=VIP, **balanced, loadBalancerSourceRanges=["192.0.2.0/24"]))
    await cluster.proxy.sync()
    assert cluster.net.outside.ask_tcp("198.51.100.20", 80, 0.5)[0] == "TimeoutError"
    cluster.proxy.put(service(ip=VIP, **balanced, loadBalancerSourceRanges=["10.0.0.0/24"]))
    await cluster.proxy.sync()
    assert cluster.net.outside.ask_tcp("198.51.100.20", 80)[0] == server.ip


async def test_a_rolling_update_loses_no_request(nft: Cluster) -> None:
    """Old pods leave the rules before they stop serving; whoever connects meets one that serves."""
    old, new = [nft.net.pod() for _ in range(2)], [nft.net.pod() for _ in range(2)]
    for pod in (*old, *new):
        pod.serve_tcp(8080)
    nft.proxy.put(service(ip=VIP), endpoint_slice([endpoint(pod.ip) for pod in old]))
    await nft.proxy.sync()
    client = nft.net.pod().asking_tcp(VIP, 80)
    for step in range(2):
        serving = [endpoint(pod.ip) for pod in (*old[step:], *new[: step + 1])]
        nft.proxy.put(endpoint_slice(serving))
        await nft.proxy.sync()
        leaving = endpoint(old[step].ip, ready=False, serving=True, terminating=True)
        nft.proxy.put(endpoint_slice([leaving, *[each for each in serving if each["addresses"] != [old[step].ip]]]))
        await nft.proxy.sync()
        await asyncio.sleep(0.2)
        old[step].stop_serving()
    answered, failed = client.stop()
    assert failed == 0
    assert answered > 100

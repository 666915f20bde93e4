"""The kernel's connection table, as the proxy sees it: what was really sent is listed, and deleted entries are gone."""

import socket
from collections.abc import Iterator

import pytest

from netproxy.kernel.conntrack import FakeConntrack, Flow, RealConntrack
from tests.support.podnet import PodNetwork, pod_network

pytestmark = pytest.mark.root


@pytest.fixture
def net() -> Iterator[PodNetwork]:
    with pod_network() as made:
        # tracking begins with the first rule that needs it
        made.node.command("iptables", "-A", "OUTPUT", "-m", "conntrack", "--ctstate", "NEW", "-j", "ACCEPT")
        made.node.command("ip6tables", "-A", "OUTPUT", "-m", "conntrack", "--ctstate", "NEW", "-j", "ACCEPT")
        yield made


def _send(family: socket.AddressFamily, address: str, port: int) -> None:
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"?", (address, port))


async def test_flows_are_listed_and_deleted_ones_are_gone(net: PodNetwork) -> None:
    for port in (5001, 5002, 5003):
        _send(socket.AF_INET, net.outside.ip, port)
    with socket.socket() as other:
        assert other.connect_ex((net.outside.ip, 5001)) != 0
    table = RealConntrack()
    flows = [flow for flow in await table.udp_flows() if flow.destination == net.outside.ip]
    assert sorted(flow.port for flow in flows) == [5001, 5002, 5003]
    assert all(not flow.translated and flow.reply_source == net.outside.ip for flow in flows)
    gone = [flow for flow in flows if flow.port != 5002]
    assert await table.delete(gone) == 2
    assert await table.delete(gone) == 0
    assert [flow.port for flow in await table.udp_flows() if flow.destination == net.outside.ip] == [5002]


async def test_a_translated_flow_shows_who_answers(net: PodNetwork) -> None:
    rule = "-t nat -A OUTPUT -p udp -d 10.96.0.10 --dport 53 -j DNAT --to-destination 10.0.0.2:5353"
    net.node.command("iptables", *rule.split())
    _send(socket.AF_INET, "10.96.0.10", 53)
    (flow,) = [flow for flow in await RealConntrack().udp_flows() if flow.destination == "10.96.0.10"]
    assert (flow.port, flow.reply_source, flow.reply_port, flow.translated) == (53, "10.0.0.2", 5353, True)


async def test_ipv6_and_zones_are_read_too(net: PodNetwork) -> None:
    net.node.command("iptables", *["-t", "raw", "-A", "OUTPUT", "-p", "udp", "--dport", "5004", "-j", "CT", "--zone", "7"])
    _send(socket.AF_INET, net.outside.ip, 5004)
    _send(socket.AF_INET6, "::1", 5005)
    zoned = [flow for flow in await RealConntrack().udp_flows() if flow.port == 5004]
    assert [flow.destination for flow in zoned] == [net.outside.ip]
    assert await RealConntrack().delete(zoned) == 1
    (flow,) = [flow for flow in await RealConntrack("IPv6").udp_flows() if flow.port == 5005]
    assert flow.destination == "::1"
    assert await RealConntrack("IPv6").delete([flow]) == 1


async def test_the_fake_agrees() -> None:
    flows = [Flow("10.0.0.2", port, "10.0.0.2", port) for port in (1, 2, 3)]
    table = FakeConntrack(flows)
    assert await table.delete(flows[:2]) == 2
    assert await table.delete(flows[:2]) == 0
    assert list(await table.udp_flows()) == flows[2:]

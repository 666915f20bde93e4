"""The nftables backend on a table in memory: upstream's layout, small differences, what it does when it is refused."""

import pytest

from netproxy.backends.nftables import names
from netproxy.backends.options import Options
from netproxy.plan import Target
from netproxy.trackers.services import PortName
from tests.support.proxy import Object, endpoint, endpoint_slice, nftables_proxy, node, port, service

P80 = [port(80, "p80")]
SVC1 = PortName("ns1", "svc1", "p80", "TCP")


def _of(namespace: str, obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}


def test_names_are_upstreams() -> None:
    assert names.port_base(SVC1) == "ULMVA6XW-ns1/svc1/tcp/p80"
    assert names.endpoint_base(SVC1, Target("10.180.0.1", 80)) == "5OJB2KTY-ns1/svc1/tcp/p80__10.180.0.1/80"
    assert names.endpoint_base(SVC1, Target("fd00:10:180::2:1", 80)) == "2CRNCTTE-ns1/svc1/tcp/p80__fd00.10.180..2.1/80"
    longest = PortName("n" * 63, "s" * 63, "p" * 63, "SCTP")
    assert len(names.AFFINITY + names.endpoint_base(longest, Target("fd00:1111:2222:3333:4444:5555:6666:7777", 65535))) < 256


async def test_a_balanced_service_with_affinity_and_source_ranges_looks_as_upstreams() -> None:
    proxy, nft = nftables_proxy(Options(cluster_cidr="10.0.0.0/8"))
    spec = {"type": "LoadBalancer", "sessionAffinity": "ClientIP", "loadBalancerSourceRanges": ["203.0.113.0/25"]}
    svc5 = service("svc5", "172.30.0.45", [port(80, "p80", node_port=3002)], status_ips=["5.6.7.8"], **spec)
    proxy.put(
        node(address="192.168.0.2"),
        _of("ns5", svc5),
        _of("ns5", endpoint_slice([endpoint("10.180.0.3")], "svc5", P80)),
        _of("ns6", service("svc6", "172.30.0.46", P80)),
    )
    await proxy.sync()
    state = nft.state()
    base, end = "HVFWP5L3-ns5/svc5/tcp/p80", "GTK6MW7G-ns5/svc5/tcp/p80__10.180.0.3/80"
    assert {chain: rules for chain, rules in state.items() if names.is_of_port(chain) and not chain.startswith("@")} == {
        f"service-{base}": [
            "ip daddr 172.30.0.45 tcp dport 80 ip saddr != 10.0.0.0/8 jump mark-for-masquerade",
            f"ip saddr @affinity-{end} goto endpoint-{end}",
            f"numgen random mod 1 vmap {{ 0 : goto endpoint-{end} }}",
        ],
        f"external-{base}": ["jump mark-for-masquerade", f"goto service-{base}"],
        f"endpoint-{end}": [
            "ip saddr 10.180.0.3 jump mark-for-masquerade",
            f"update @affinity-{end} {{ ip saddr }}",
            "meta l4proto tcp dnat to 10.180.0.3:80",
        ],
        f"firewall-{base}": ["ip saddr != { 203.0.113.0/25 } drop"],
    }
    elements = {name: held[1] for name, held in state.items() if name.startswith("@")}  # type: ignore[index]
    assert elements == {
        "@cluster-ips": {"172.30.0.45": "", "172.30.0.46": ""},
        "@service-ips": {
            "172.30.0.45 . tcp . 80": f": goto service-{base}",
            "5.6.7.8 . tcp . 80": f": goto external-{base}",
        },
        "@service-nodeports": {"tcp . 3002": f": goto external-{base}"},
        "@firewall-ips": {"5.6.7.8 . tcp . 80": f'comment "ns5/svc5:p80" : goto firewall-{base}'},
        "@no-endpoint-services": {"172.30.0.46 . tcp . 80": 'comment "ns6/svc6:p80" : goto reject-chain'},
        "@no-endpoint-nodeports": {},
        f"@affinity-{end}": {},
    }


ADDRESSES: dict[str, tuple[tuple[str, ...], str, dict[str, str]]] = {
    "all": ((), "fib daddr type local ip daddr != 127.0.0.0/8", {}),
    "primary": (("primary",), "ip daddr @nodeport-ips", {"10.0.0.1": ""}),
    "ranges": (
        ("10.0.0.0/8", "10.1.0.0/16"),
        "fib daddr type local ip daddr != 127.0.0.0/8 ip daddr @nodeport-ips",
        {"10.0.0.0/8": ""},
    ),
}


@pytest.mark.parametrize("case", ADDRESSES.values(), ids=ADDRESSES)
async def test_which_addresses_have_node_ports(case: tuple[tuple[str, ...], str, dict[str, str]]) -> None:
    addresses, match, elements = case
    proxy, nft = nftables_proxy(Options(node_port_addresses=addresses))
    proxy.put(node(address="10.0.0.1"))
    await proxy.sync()
    state = nft.state()
    assert state["services"] == [
        "ip daddr . meta l4proto . th dport vmap @service-ips",
        f"{match} meta l4proto . th dport vmap @service-nodeports",
    ]
    assert state.get("@nodeport-ips", ("", {}))[1] == elements  # type: ignore[index]


async def test_the_address_of_the_node_may_come_late_and_change() -> None:
    proxy, nft = nftables_proxy(Options(node_port_addresses=("primary",)))
    await proxy.sync()
    for address in ("10.0.0.1", "10.0.0.2"):
        proxy.put(node(address=address))
        await proxy.sync()
        assert nft.state()["@nodeport-ips"][1] == {address: ""}  # type: ignore[index]


async def test_one_endpoint_among_a_thousand_services_writes_a_few_lines() -> None:
    proxy, nft = nftables_proxy()
    proxy.put(node())
    for number in range(1000):
        name = f"s{number}"
        proxy.put(service(name, f"10.96.{number // 250}.{number % 250}"), endpoint_slice([endpoint("10.244.0.2")], name))
    await proxy.sync()
    proxy.put(endpoint_slice([endpoint("10.244.0.2"), endpoint("10.244.0.3")], "s7"))
    await proxy.sync()
    assert len(nft.transactions[-1].splitlines()) < 10
    proxy.put(service("new", "10.97.0.1"))
    await proxy.sync()
    assert len(nft.transactions[-1].splitlines()) < 4


async def test_clients_are_remembered_over_a_resync_but_not_under_another_timeout() -> None:
    proxy, nft = nftables_proxy()
    proxy.put(node(), service(sessionAffinity="ClientIP"), endpoint_slice([endpoint("10.244.0.2")]))
    await proxy.sync()
    name = next(each for each in nft.table.sets if each.startswith(names.AFFINITY))  # type: ignore[union-attr]
    nft.table.sets[name].elements["10.0.0.9"] = ""  # type: ignore[union-attr]
    await proxy.resync()
    assert nft.table.sets[name].elements == {"10.0.0.9": ""}  # type: ignore[union-attr]
    for sync in (proxy.sync, proxy.resync):
        seconds = 60 if sync == proxy.sync else 70
        proxy.put(service(sessionAffinity="ClientIP", sessionAffinityConfig={"clientIP": {"timeoutSeconds": seconds}}))
        await sync()
        assert f"timeout {seconds}s" in nft.table.sets[name].body  # type: ignore[union-attr]


async def test_chains_out_of_use_are_emptied_at_once_and_deleted_later() -> None:
    failures: list[None] = []
    proxy, nft = nftables_proxy(cleanup_failures=failures)
    gone = service()
    proxy.put(node(), gone, endpoint_slice([endpoint("10.244.0.2")]))
    await proxy.sync()
    proxy.delete(gone)
    await proxy.sync()
    left = {chain: rules for chain, rules in nft.table.rules.items() if names.is_of_port(chain)}  # type: ignore[union-attr]
    assert left
    assert not any(left.values())

    async def another(number: int) -> bool:
        proxy.put(service(f"s{number}", f"10.96.0.{number}"))
        await proxy.proxier.sync()
        return any(names.is_of_port(chain) for chain in nft.table.chains)  # type: ignore[union-attr]

    assert await another(1)  # too early
    await proxy.clock.advance(2)  # type: ignore[attr-defined]
    nft.fail_next = "Device or resource busy"
    assert await another(2)
    assert len(failures) == 1
    await proxy.clock.advance(2)  # type: ignore[attr-defined]
    assert not await another(3)


async def test_a_service_that_comes_back_uses_its_chains_again() -> None:
    proxy, nft = nftables_proxy()
    web = service()
    proxy.put(node(), web, endpoint_slice([endpoint("10.244.0.2")]))
    await proxy.sync()
    before = nft.state()
    proxy.delete(web)
    await proxy.sync()
    proxy.put(web)
    await proxy.sync()
    await proxy.clock.advance(2)  # type: ignore[attr-defined]
    await proxy.sync()
    assert nft.state() == before


async def test_a_refused_service_is_set_aside_and_a_foreign_layout_is_replaced() -> None:
    proxy, nft = nftables_proxy()
    await proxy.sync()
    nft.table.chains["filter-input"] = "{ type filter hook input priority -110 ; }"  # type: ignore[union-attr]
    nft.lacks = "10.244.0.3:8080"
    for number in range(5):
        proxy.put(service(f"s{number}", f"10.96.0.{number}"), endpoint_slice([endpoint(f"10.244.0.{number}")], f"s{number}"))
    await proxy.resync()
    assert set(nft.state()["@cluster-ips"][1]) == {f"10.96.0.{number}" for number in (0, 1, 2, 4)}  # type: ignore[index]


async def test_of_two_services_with_one_external_address_the_first_by_name_has_it() -> None:
    proxy, nft = nftables_proxy()
    shared = {"externalIPs": ["203.0.113.1"]}
    first, second = service("a", "10.96.0.1", **shared), service("b", "10.96.0.2", **shared)
    slices = [endpoint_slice([endpoint("10.244.0.2")], name) for name in "ab"]
    proxy.put(node(), second, *slices)
    for change, owner in ((lambda: None, "b"), (lambda: proxy.put(first), "a"), (lambda: proxy.delete(first), "b")):
        change()
        await proxy.sync()
        assert f"default/{owner}/tcp/" in nft.state()["@service-ips"][1]["203.0.113.1 . tcp . 80"]  # type: ignore[index]


async def test_services_with_the_longest_names_are_refused_nothing() -> None:
    proxy, nft = nftables_proxy()
    spec = {"type": "LoadBalancer", "loadBalancerSourceRanges": ["203.0.113.0/25"]}
    long = [port(80, "p" * 63, node_port=3002)]
    alone = service("s" * 63, "10.96.0.1", long, status_ips=["5.6.7.8"], **spec)
    proxy.put(node(), {**alone, "metadata": {**alone["metadata"], "namespace": "n" * 63}})
    await proxy.sync()
    elements = {key for container in ("firewall-ips", "no-endpoint-services") for key in nft.state()[f"@{container}"][1]}  # type: ignore[index]
    assert elements == {"10.96.0.1 . tcp . 80", "5.6.7.8 . tcp . 80"}


async def test_a_flush_is_noticed() -> None:
    proxy, nft = nftables_proxy()
    await proxy.sync()
    assert await proxy.backend.intact()
    for chain in nft.table.rules:  # type: ignore[union-attr]
        nft.table.rules[chain] = []  # type: ignore[union-attr]
    assert not await proxy.backend.intact()
    nft.flush_ruleset()
    assert not await proxy.backend.intact()
    await proxy.resync()
    assert await proxy.backend.intact()

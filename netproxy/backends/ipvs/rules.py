"""The rules of iptables that go with virtual servers: what is masqueraded, let through or kept out, by sets. Pure.

They are the same whatever the services are; only ``KUBE-IPVS-OUT-FILTER`` names addresses.
"""

from collections.abc import Iterable, Mapping

from netproxy.backends.ipvs import names
from netproxy.backends.options import Options
from netproxy.kernel.iptables import Tables, Transaction, target_of

ChainRef = tuple[str, str]
"""Table and chain."""

# Table, built-in chain, our chain, comment; in the order of upstream, which puts each at the head.
JUMPS: tuple[tuple[str, str, str, str], ...] = (
    ("nat", "OUTPUT", names.SERVICES, "kubernetes service portals"),
    ("nat", "PREROUTING", names.SERVICES, "kubernetes service portals"),
    ("nat", "POSTROUTING", names.POSTROUTING, "kubernetes postrouting rules"),
    ("filter", "FORWARD", names.FORWARD, "kubernetes forwarding rules"),
    ("filter", "INPUT", names.NODE_PORT, "kubernetes health check rules"),
    ("filter", "INPUT", names.PROXY_FIREWALL, "kube-proxy firewall rules"),
    ("filter", "FORWARD", names.PROXY_FIREWALL, "kube-proxy firewall rules"),
    ("filter", "INPUT", names.IPVS_FILTER, "kubernetes ipvs access filter"),
    ("filter", "OUTPUT", names.IPVS_OUT_FILTER, "kubernetes ipvs access filter"),
)


def chains(options: Options) -> Mapping[ChainRef, tuple[str, ...]]:
    """All but ``KUBE-IPVS-OUT-FILTER``; a chain stands behind those to which it leads."""
    return {
        ("nat", names.MARK_MASQ): (f"-j MARK --or-mark {_mark(options)}",),
        ("nat", names.NODE_PORT): tuple(_node_port(options)),
        ("nat", names.LOAD_BALANCER_CHAIN): (
            f"{_match(names.LOAD_BALANCER_LOCAL, 'dst,dst', options)} -j RETURN",
            f"-j {names.MARK_MASQ}",
        ),
        ("nat", names.SERVICES): tuple(_services(options)),
        ("nat", names.POSTROUTING): tuple(_postrouting(options)),
        ("filter", names.FORWARD): (
            f'-m comment --comment "kubernetes forwarding rules" -m mark --mark {_mark(options)}/{_mark(options)} -j ACCEPT',
            '-m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
        ),
        ("filter", names.NODE_PORT): (f"{_match(names.HEALTH_CHECK_NODE_PORT, 'dst', options)} -j ACCEPT",),
        ("filter", names.SOURCE_RANGES_FIREWALL): (
            f"{_match(names.LOAD_BALANCER_SOURCE_CIDR, 'dst,dst,src', options)} -j RETURN",
            f"{_match(names.LOAD_BALANCER_SOURCE_IP, 'dst,dst,src', options)} -j RETURN",
            "-j DROP",
        ),
        ("filter", names.PROXY_FIREWALL): (
            f"{_match(names.LOAD_BALANCER_FW, 'dst,dst', options)} -j {names.SOURCE_RANGES_FIREWALL}",
        ),
        ("filter", names.IPVS_FILTER): tuple(_ipvs_filter(options)),
    }


def removal(held: Tables) -> Transaction:
    """What takes these chains away, and what leads to them."""
    transaction = Transaction()
    for table, parent, chain, _ in JUMPS:
        lines = held.get(table, {}).get(parent, ())
        transaction.table(table).deletes += [(parent, line) for line in lines if target_of(line) == chain]
    for table, chain in (*chains(Options()), ("filter", names.IPVS_OUT_FILTER)):
        if chain in held.get(table, {}):
            transaction.table(table).removed.append(chain)
    return transaction


def _node_port(options: Options) -> Iterable[str]:
    """Traffic under policy Local keeps its source, so its sets come first."""
    for protocol, local, all_of, match in (
        ("tcp", names.NODE_PORT_LOCAL_TCP, names.NODE_PORT_TCP, "dst"),
        ("udp", names.NODE_PORT_LOCAL_UDP, names.NODE_PORT_UDP, "dst"),
        ("sctp", names.NODE_PORT_LOCAL_SCTP, names.NODE_PORT_SCTP, "dst,dst"),
    ):
        yield f"-p {protocol} {_match(local, match, options)} -j RETURN"
        yield f"-p {protocol} {_match(all_of, match, options)} -j {names.MARK_MASQ}"


def _services(options: Options) -> Iterable[str]:
    yield f"-s {'127.0.0.0/8' if options.family == 'IPv4' else '::1/128'} -j RETURN"
    balancer, cluster = _match(names.LOAD_BALANCER, "dst,dst", options), _match(names.CLUSTER_IP, "dst,dst", options)
    yield f"{balancer} -j {names.LOAD_BALANCER_CHAIN}"
    yield _masquerade_cluster_ips(cluster, options)
    external = _match(names.EXTERNAL_IP, "dst,dst", options)
    yield f"{external} -j {names.MARK_MASQ}"
    for each in (external, _match(names.EXTERNAL_IP_LOCAL, "dst,dst", options)):
        yield f"{each} -m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ACCEPT"
        yield f"{each} -m addrtype --dst-type LOCAL -j ACCEPT"
    yield f"-m addrtype --dst-type LOCAL -j {names.NODE_PORT}"
    # last, lest rules of others keep from the virtual servers what is theirs
    yield f"{cluster} -j ACCEPT"
    yield f"{balancer} -j ACCEPT"


def _masquerade_cluster_ips(match: str, options: Options) -> str:
    """What others than pods send. Where pods are not known: what this node sends, whose source is then a cluster IP."""
    if options.masquerade_all:
        return f"{match} -j {names.MARK_MASQ}"
    if options.cluster_cidr:
        return f"{match} ! -s {options.cluster_cidr} -j {names.MARK_MASQ}"
    if options.pod_interface:
        return f"{match} ! -i {options.pod_interface} -j {names.MARK_MASQ}"
    return f"{_match(names.CLUSTER_IP, 'src,dst', options)} -j {names.MARK_MASQ}"


def _postrouting(options: Options) -> Iterable[str]:
    mark, fully = _mark(options), " --random-fully" if options.random_fully else ""
    # a pod that was sent to itself must not see its own address as the sender
    yield f"{_match(names.LOOP_BACK, 'dst,dst,src', options)} -j MASQUERADE"
    yield f"-m mark ! --mark {mark}/{mark} -j RETURN"
    yield f"-j MARK --xor-mark {mark}"
    yield f'-m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE{fully}'


def _ipvs_filter(options: Options) -> Iterable[str]:
    """Addresses of services are addresses of this machine: keep its own servers from answering there."""
    for name in (names.LOAD_BALANCER, names.CLUSTER_IP, names.EXTERNAL_IP, names.EXTERNAL_IP_LOCAL):
        yield f"{_match(name, 'dst,dst', options)} -j RETURN"
    yield f"{_match(names.HEALTH_CHECK_NODE_PORT, 'dst', options)} -j RETURN"
    yield f"-m conntrack --ctstate NEW {_match(names.IPVS_IPS, 'dst', options)} -j REJECT"


def _match(name: str, fields: str, options: Options) -> str:
    return f"-m set --match-set {names.set_name(name, options.family)} {fields}"


def _mark(options: Options) -> str:
    return f"{1 << options.masquerade_bit:#x}"

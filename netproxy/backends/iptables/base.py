"""What every node has whatever its services: marks, masquerade, forwarding, and the jumps from the built-in chains. Pure."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

from netproxy.backends.iptables import names
from netproxy.backends.options import PRIMARY, Options, primary_address
from netproxy.trackers.nodes import NodeFacts

ChainRef = tuple[str, str]
"""Table and chain."""


def from_pods(options: Options) -> str:
    """The match for packets that pods send; ``! `` before it makes it the match for all others. Empty when pods are not known."""
    if options.cluster_cidr:
        return f"-s {options.cluster_cidr}"
    return f"-i {options.pod_interface}" if options.pod_interface else ""


def loopback_node_ports(options: Options) -> bool:
    """Whether 127.0.0.1 answers node ports, which needs ``route_localnet``; IPv6 knows nothing like it."""
    if options.family != "IPv4" or not options.localhost_node_ports:
        return False
    loopback = ipaddress.ip_network("127.0.0.0/8")
    ranges = [ipaddress.ip_network(each, strict=False) for each in options.node_port_addresses if each != PRIMARY]
    return not options.node_port_addresses or any(each.overlaps(loopback) for each in ranges)


@dataclass(frozen=True, slots=True)
class Jump:
    """A rule in a built-in chain that leads to ours."""

    table: str
    parent: str
    chain: str
    match: str

    @property
    def rule(self) -> str:
        return f"{self.match} -j {self.chain}"


_NEW = "-m conntrack --ctstate NEW"


def _jump(table: str, parent: str, chain: str, comment: str, match: str = "") -> Jump:
    text = f'-m comment --comment "{comment}"'
    return Jump(table, parent, chain, f"{match} {text}".strip())


# In the order in which they stand in each built-in chain, ahead of foreign rules.
JUMPS: tuple[Jump, ...] = (
    _jump("filter", "INPUT", names.PROXY_FIREWALL, "kubernetes load balancer firewall", _NEW),
    _jump("filter", "INPUT", names.NODE_PORTS, "kubernetes health check service ports"),
    _jump("filter", "INPUT", names.EXTERNAL_SERVICES, "kubernetes externally-visible service portals", _NEW),
    _jump("filter", "INPUT", names.FIREWALL, "kubernetes firewall"),
    _jump("filter", "FORWARD", names.PROXY_FIREWALL, "kubernetes load balancer firewall", _NEW),
    _jump("filter", "FORWARD", names.FORWARD, "kubernetes forwarding rules"),
    _jump("filter", "FORWARD", names.SERVICES, "kubernetes service portals", _NEW),
    _jump("filter", "FORWARD", names.EXTERNAL_SERVICES, "kubernetes externally-visible service portals", _NEW),
    _jump("filter", "OUTPUT", names.PROXY_FIREWALL, "kubernetes load balancer firewall", _NEW),
    _jump("filter", "OUTPUT", names.SERVICES, "kubernetes service portals", _NEW),
    _jump("filter", "OUTPUT", names.FIREWALL, "kubernetes firewall"),
    _jump("nat", "PREROUTING", names.SERVICES, "kubernetes service portals"),
    _jump("nat", "OUTPUT", names.SERVICES, "kubernetes service portals"),
    _jump("nat", "POSTROUTING", names.POSTROUTING, "kubernetes postrouting rules"),
)

SHARED: tuple[ChainRef, ...] = (
    ("filter", names.SERVICES),
    ("filter", names.EXTERNAL_SERVICES),
    ("filter", names.NODE_PORTS),
    ("filter", names.PROXY_FIREWALL),
    ("nat", names.SERVICES),
    ("nat", names.NODE_PORTS),
)
"""Chains to which every service port may add rules. New ones are put at the head, so what :func:`tails` adds stays last."""


def fixed(options: Options) -> Mapping[ChainRef, tuple[str, ...]]:
    """Chains that depend on flags alone."""
    mark = f"{1 << options.masquerade_bit:#x}"
    forward = [
        f'-m comment --comment "kubernetes forwarding rules" -m mark --mark {mark}/{mark} -j ACCEPT',
        '-m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
    ]
    if options.drop_invalid:
        # a packet conntrack cannot place would leave with the pod's own address and reset the connection
        forward.insert(0, "-m conntrack --ctstate INVALID -j DROP")
    fully = " --random-fully" if options.random_fully else ""
    chains: dict[ChainRef, tuple[str, ...]] = {
        ("nat", names.MARK_MASQ): (f"-j MARK --or-mark {mark}",),
        ("nat", names.POSTROUTING): (
            f"-m mark ! --mark {mark}/{mark} -j RETURN",
            # the packet may meet this chain again, when it is encapsulated
            f"-j MARK --xor-mark {mark}",
            f'-m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE{fully}',
        ),
        ("filter", names.FORWARD): tuple(forward),
        ("filter", names.FIREWALL): _firewall(options),
    }
    return chains


def _firewall(options: Options) -> tuple[str, ...]:
    """With ``route_localnet`` a neighbour could address 127.0.0.1 of this node (CVE-2020-8558); refuse that."""
    if not loopback_node_ports(options):
        return ()
    return (
        '-m comment --comment "block incoming localnet connections" ! -s 127.0.0.0/8 -d 127.0.0.0/8 '
        "-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP",
    )


def tails(options: Options, node: NodeFacts) -> Mapping[ChainRef, tuple[str, ...]]:
    """Last rules of shared chains: what no service address matched may be a node port."""
    comment = '-m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain"'
    jump = f"-j {names.NODE_PORTS}"
    if not options.node_port_addresses:
        loopback = "127.0.0.0/8" if options.family == "IPv4" else "::1/128"
        but = "" if loopback_node_ports(options) else f"! -d {loopback} "
        rules = [f"{comment} {but}-m addrtype --dst-type LOCAL {jump}"]
    else:
        rules = [f"{comment} -d {where} {jump}" for where in _node_port_addresses(options, node)]
    return {("nat", names.SERVICES): tuple(rules)}


def _node_port_addresses(options: Options, node: NodeFacts) -> list[str]:
    """Ranges narrowed to local addresses by the match; ``primary`` is an address of this node."""
    found = []
    for each in options.node_port_addresses:
        if each != PRIMARY:
            found.append(f"{each} -m addrtype --dst-type LOCAL")
        elif address := primary_address(node, options.family):
            found.append(address)
    return found

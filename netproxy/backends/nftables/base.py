"""What every node has whatever its services: base chains, the jumps from them, maps and sets without elements. Pure."""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from netproxy.backends.nftables import names
from netproxy.backends.options import PRIMARY, Options, primary_address
from netproxy.trackers.nodes import NodeFacts

COMMENT = '{ comment "rules for kube-proxy" ; }'

# Filters see destinations as they were sent, so those that must run before translation have a lower priority (dstnat is -100).
BASE_CHAINS: Mapping[str, str] = {
    "filter-prerouting-pre-dnat": "{ type filter hook prerouting priority -110 ; }",
    "filter-output-pre-dnat": "{ type filter hook output priority -110 ; }",
    "filter-input": "{ type filter hook input priority 0 ; }",
    "filter-forward": "{ type filter hook forward priority 0 ; }",
    "filter-output": "{ type filter hook output priority 0 ; }",
    "nat-prerouting": "{ type nat hook prerouting priority -100 ; }",
    "nat-output": "{ type nat hook output priority -100 ; }",
    "nat-postrouting": "{ type nat hook postrouting priority 100 ; }",
}

_JUMPS: Mapping[str, tuple[str, ...]] = {
    "filter-prerouting-pre-dnat": (f"ct state new jump {names.FIREWALL_CHECK}",),
    "filter-output-pre-dnat": (f"ct state new jump {names.FIREWALL_CHECK}",),
    "filter-input": (
        f"ct state new jump {names.NODE_PORT_ENDPOINTS_CHECK}",
        f"ct state new jump {names.SERVICE_ENDPOINTS_CHECK}",
    ),
    "filter-forward": (
        f"ct state new jump {names.SERVICE_ENDPOINTS_CHECK}",
        f"ct state new jump {names.CLUSTER_IPS_CHECK}",
    ),
    "filter-output": (
        f"ct state new jump {names.SERVICE_ENDPOINTS_CHECK}",
        f"ct state new jump {names.CLUSTER_IPS_CHECK}",
    ),
    "nat-prerouting": (f"jump {names.SERVICES}",),
    "nat-output": (f"jump {names.SERVICES}",),
    "nat-postrouting": (f"jump {names.MASQUERADING}",),
}


@dataclass(frozen=True, slots=True)
class Words:
    """What nft calls things of a family."""

    ip: str
    address: str
    loopback: str

    @classmethod
    def of(cls, options: Options) -> "Words":
        return cls("ip6", "ipv6_addr", "::1") if options.family == "IPv6" else cls("ip", "ipv4_addr", "127.0.0.0/8")


def from_pods(options: Options, *, negated: bool = False) -> str:
    """The match for packets that pods send, or for all others; empty when pods are not known."""
    no = "!= " if negated else ""
    if options.cluster_cidr:
        return f"{Words.of(options).ip} saddr {no}{options.cluster_cidr}"
    return f'iifname {no}"{options.pod_interface.replace("+", "*")}"' if options.pod_interface else ""


def containers(options: Options) -> Mapping[str, tuple[str, str]]:
    """Sets and maps by name: which of the two, and the definition."""
    address = Words.of(options).address
    by_address, by_port = f"{address} . inet_proto . inet_service : verdict", "inet_proto . inet_service : verdict"
    made: dict[str, tuple[str, str]] = {
        names.CLUSTER_IPS: ("set", _definition(address, "Active ClusterIPs")),
        names.SERVICE_IPS: ("map", _definition(by_address, "ClusterIP, ExternalIP and LoadBalancer IP traffic")),
        names.SERVICE_NODE_PORTS: ("map", _definition(by_port, "NodePort traffic")),
        names.NO_ENDPOINT_SERVICES: (
            "map",
            _definition(by_address, "vmap to drop or reject packets to services with no endpoints"),
        ),
        names.NO_ENDPOINT_NODE_PORTS: (
            "map",
            _definition(by_port, "vmap to drop or reject packets to service nodeports with no endpoints"),
        ),
        names.FIREWALL_IPS: ("map", _definition(by_address, "destinations that are subject to LoadBalancerSourceRanges")),
    }
    if options.node_port_addresses:
        made[names.NODE_PORT_IPS] = ("set", _definition(address, "IPs that accept NodePort traffic", _interval(options)))
    return made


def _interval(options: Options) -> str:
    return "" if PRIMARY in options.node_port_addresses else "flags interval ; "


def _definition(kind: str, comment: str, flags: str = "") -> str:
    return f'{{ type {kind} ; {flags}comment "{comment}" ; }}'


def node_port_ips(options: Options, node: NodeFacts) -> Mapping[str, str]:
    """Elements of the set of addresses with node ports. Ranges are narrowed to local addresses by the rules that use them."""
    if PRIMARY in options.node_port_addresses:
        address = primary_address(node, options.family)
        return {address: ""} if address else {}
    return dict.fromkeys(merged(options.node_port_addresses), "")


def merged(ranges: Sequence[str]) -> list[str]:
    """The same addresses in ranges that do not overlap, as a set of intervals wants them."""
    return [str(each) for each in ipaddress.collapse_addresses(map(ipaddress.ip_network, ranges))]  # type: ignore[type-var]


def chains(options: Options) -> Mapping[str, tuple[str, ...]]:
    """Rules of every chain that depends on flags alone, in the order in which chains may be filled."""
    words, mark = Words.of(options), f"{1 << options.masquerade_bit:#x}"
    destination, port = f"{words.ip} daddr . meta l4proto . th dport vmap", "meta l4proto . th dport vmap"
    local = _node_port_match(options, words)
    return {
        **_JUMPS,
        names.SERVICES: (f"{destination} @{names.SERVICE_IPS}", f"{local} {port} @{names.SERVICE_NODE_PORTS}"),
        names.SERVICE_ENDPOINTS_CHECK: (f"{destination} @{names.NO_ENDPOINT_SERVICES}",),
        names.NODE_PORT_ENDPOINTS_CHECK: (f"{local} {port} @{names.NO_ENDPOINT_NODE_PORTS}",),
        names.FIREWALL_CHECK: (f"{destination} @{names.FIREWALL_IPS}",),
        names.CLUSTER_IPS_CHECK: (
            f'{words.ip} daddr @{names.CLUSTER_IPS} reject comment "Reject traffic to invalid ports of ClusterIPs"',
        ),
        names.REJECT: ("reject",),
        names.MARK_FOR_MASQUERADE: (f"mark set mark or {mark}",),
        names.MASQUERADING: (
            f"mark and {mark} == 0 return",
            # the packet may meet this chain again, when it is encapsulated
            f"mark set mark xor {mark}",
            "masquerade fully-random",
        ),
    }


def _node_port_match(options: Options, words: Words) -> str:
    """Never loopback: a packet from there cannot be sent on to a pod without ``route_localnet``, which opens a hole."""
    chosen = f"{words.ip} daddr @{names.NODE_PORT_IPS}"
    if PRIMARY in options.node_port_addresses:
        return chosen
    local = f"fib daddr type local {words.ip} daddr != {words.loopback}"
    return f"{local} {chosen}" if options.node_port_addresses else local


def definition(chain: str) -> str:
    if chain == names.REJECT:
        return f'{{ comment "helper for @{names.NO_ENDPOINT_SERVICES} / @{names.NO_ENDPOINT_NODE_PORTS}" ; }}'
    return BASE_CHAINS.get(chain, "")

"""One service port as virtual servers, addresses of the dummy device, entries of sets and rules. Pure; called by ``backend``."""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from netproxy.backends.elements import Ref
from netproxy.backends.ipvs import names
from netproxy.backends.ipvs.settings import IPVSSettings
from netproxy.backends.options import PRIMARY, Options, primary_address
from netproxy.kernel.ipvs import PERSISTENT, SOURCE_HASH, Real, Server, Settings
from netproxy.plan import PortRules, Target
from netproxy.trackers.nodes import NodeFacts


@dataclass(frozen=True, slots=True)
class Wanted:
    """How a virtual server should be."""

    settings: Settings
    reals: frozenset[Real] = frozenset()


@dataclass(frozen=True, slots=True)
class Rendered:
    """What one service port needs. ``entries`` maps set and entry to nothing of meaning, ``bound`` are addresses of the dummy
    device, ``filters`` rules of ``KUBE-IPVS-OUT-FILTER``."""

    servers: Mapping[Server, Wanted] = field(default_factory=dict)
    entries: Mapping[Ref, str] = field(default_factory=dict)
    bound: frozenset[str] = frozenset()
    filters: tuple[str, ...] = ()


EMPTY = Rendered()


@dataclass(frozen=True, slots=True)
class Here:
    """This node's addresses: all of them, and those on which node ports answer."""

    addresses: frozenset[str] = frozenset()
    node_ports: tuple[str, ...] = ()


def here(addresses: frozenset[str], options: Options, node: NodeFacts) -> Here:
    """``addresses`` are the machine's without loopback: IPVS does not serve loopback, as packets from there cannot leave."""
    if not options.node_port_addresses:
        chosen = addresses
    elif PRIMARY in options.node_port_addresses:
        chosen = frozenset(filter(None, [primary_address(node, options.family)]))
    else:
        ranges = [ipaddress.ip_network(each, strict=False) for each in options.node_port_addresses]
        chosen = frozenset(each for each in addresses if any(ipaddress.ip_address(each) in network for network in ranges))
    return Here(addresses, tuple(sorted(chosen)))


def render(rules: PortRules, options: Options, settings: IPVSSettings, node: Here) -> Rendered:
    return _Port(rules, options, settings, node).rendered()


class _Port:
    def __init__(self, rules: PortRules, options: Options, settings: IPVSSettings, node: Here) -> None:
        self.rules, self.options, self.node = rules, options, node
        flags = (PERSISTENT if rules.affinity_seconds else 0) | (SOURCE_HASH if settings.scheduler == "mh" else 0)
        self.how = Settings(settings.scheduler, flags, rules.affinity_seconds)
        self.servers: dict[Server, Wanted] = {}
        self.entries: dict[Ref, str] = {}
        self.bound: set[str] = set()
        self.filters: list[str] = []

    def rendered(self) -> Rendered:
        rules = self.rules
        for target in rules.all_targets:
            if target.local:
                ip = _canonical(target.ip)
                self._enter(names.LOOP_BACK, f"{self._with_port(ip, target.port)},{ip}")
        cluster_ip = _canonical(rules.cluster_ip)
        self._serve(cluster_ip, rules.port, rules.internal_targets)
        self._bind(cluster_ip)
        self._enter(names.CLUSTER_IP, self._with_port(cluster_ip, rules.port))
        # without a local endpoint pods of this node may still come in by these addresses; whoever is outside gets its answer
        # from another address than it asked, and drops it
        outside = rules.external_targets or rules.cluster
        for address in map(_canonical, rules.external_ips):
            name = names.EXTERNAL_IP_LOCAL if rules.external_local else names.EXTERNAL_IP
            self._enter(name, self._with_port(address, rules.port))
            self._serve_outside(address, outside)
        for address in map(_canonical, rules.load_balancer_ips):
            self._balancer(address)
            self._serve_outside(address, outside)
        if rules.node_port and self.node.node_ports:
            self._node_port(outside)
        if rules.health_check_port:
            self._enter(names.HEALTH_CHECK_NODE_PORT, str(rules.health_check_port))
        return Rendered(self.servers, self.entries, frozenset(self.bound), tuple(self.filters))

    def _balancer(self, address: str) -> None:
        rules, entry = self.rules, self._with_port(address, self.rules.port)
        self._enter(names.LOAD_BALANCER, entry)
        if rules.external_local:
            self._enter(names.LOAD_BALANCER_LOCAL, entry)
        if not rules.source_ranges:
            return
        self._enter(names.LOAD_BALANCER_FW, entry)
        for network in map(_range, rules.source_ranges):
            self._enter(names.LOAD_BALANCER_SOURCE_CIDR, f"{entry},{network}")
        if rules.node_in_source_ranges:
            # what the node sends to the address leaves from that very address
            self._enter(names.LOAD_BALANCER_SOURCE_IP, f"{entry},{address}")
        else:
            protocol, port = rules.protocol.lower(), rules.port
            self.filters.append(f"-s {address} -m ipvs --vaddr {address} --vproto {protocol} --vport {port} -j DROP")

    def _node_port(self, outside: Sequence[Target]) -> None:
        rules = self.rules
        all_of, local = {
            "TCP": (names.NODE_PORT_TCP, names.NODE_PORT_LOCAL_TCP),
            "UDP": (names.NODE_PORT_UDP, names.NODE_PORT_LOCAL_UDP),
            "SCTP": (names.NODE_PORT_SCTP, names.NODE_PORT_LOCAL_SCTP),
        }[rules.protocol]
        for name in (all_of, local) if rules.external_local else (all_of,):
            if rules.protocol == "SCTP":
                for address in self.node.node_ports:
                    self._enter(name, self._with_port(address, rules.node_port))
            else:
                self._enter(name, str(rules.node_port))
        for address in self.node.node_ports:
            self._serve(address, rules.node_port, outside)

    def _serve_outside(self, address: str, targets: Sequence[Target]) -> None:
        self._serve(address, self.rules.port, targets)
        if address not in self.node.addresses:
            self._bind(address)

    def _serve(self, address: str, port: int, targets: Sequence[Target]) -> None:
        reals = frozenset(Real(_canonical(target.ip), target.port) for target in targets)
        self.servers[Server(address, self.rules.protocol, port)] = Wanted(self.how, reals)

    def _bind(self, address: str) -> None:
        self.bound.add(address)
        self._enter(names.IPVS_IPS, address)

    def _enter(self, name: str, entry: str) -> None:
        self.entries[names.set_name(name, self.options.family), entry] = ""

    def _with_port(self, address: str, port: int) -> str:
        return f"{address},{self.rules.protocol.lower()}:{port}"


def _canonical(address: str) -> str:
    """As the kernel writes it."""
    return str(ipaddress.ip_address(address))


def _range(text: str) -> str:
    """As ``ipset save`` writes it."""
    network = ipaddress.ip_network(text, strict=False)
    return str(network.network_address if network.prefixlen == network.max_prefixlen else network)

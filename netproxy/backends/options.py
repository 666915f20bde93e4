"""Settings that every backend has, for one address family. Made by ``families`` from flags."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass

from netproxy.trackers.nodes import NodeFacts
from netproxy.trackers.services import Family

PRIMARY = "primary"
"""In ``--nodeport-addresses``: the node's own first address of the family."""


@dataclass(frozen=True, slots=True)
class Options:
    """``cluster_cidr``, or the interface through which pods send (``name`` or ``prefix+``), tells pods from outside; without
    either nothing counts as outside.

    ``node_port_addresses`` are ranges of the family; empty means every local address. ``drop_invalid`` is off where conntrack
    is liberal. ``localhost_node_ports`` and ``random_fully`` are for iptables alone: nftables never and always has them.
    """

    family: Family = "IPv4"
    cluster_cidr: str = ""
    pod_interface: str = ""
    masquerade_all: bool = False
    masquerade_bit: int = 14
    node_port_addresses: tuple[str, ...] = ()
    localhost_node_ports: bool = True
    random_fully: bool = True
    drop_invalid: bool = True

    @property
    def knows_pods(self) -> bool:
        """Whether pods can be told from outsiders."""
        return bool(self.cluster_cidr or self.pod_interface)


def of_family(addresses: Sequence[str], family: Family) -> tuple[str, ...]:
    """The ranges or addresses of one family, in their order."""
    return tuple(each for each in addresses if (":" in each) == (family == "IPv6"))


def node_port_addresses(ranges: Sequence[str], family: Family) -> tuple[str, ...]:
    """``--nodeport-addresses`` for one family. A range of everything, or none for this family, stands for every address."""
    if PRIMARY in ranges:
        return (PRIMARY,)
    mine = of_family(ranges, family)
    return () if any(ipaddress.ip_network(each, strict=False).prefixlen == 0 for each in mine) else mine


def primary_address(node: NodeFacts, family: Family) -> str:
    """The node's first address of the family, empty when it has none."""
    return next(iter(of_family(node.addresses, family)), "")

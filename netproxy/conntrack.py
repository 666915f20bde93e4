"""Which UDP flows lead to where a service no longer is: pure decision, called by ``proxier`` after rules changed.

The kernel translates a flow by its first packet. A UDP client that keeps its source port would go on talking to an endpoint
that is gone, or to nobody if it began before there were endpoints, for as long as it keeps sending.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from netproxy.kernel.conntrack import Flow
from netproxy.plan import PortRules, Target
from netproxy.trackers.services import PortName


@dataclass(frozen=True, slots=True)
class Suspects:
    """Where flows may be stale, and the targets that they may still lead to."""

    addresses: Mapping[tuple[str, int], frozenset[tuple[str, int]]]
    node_ports: Mapping[int, frozenset[tuple[str, int]]]

    def __bool__(self) -> bool:
        return bool(self.addresses or self.node_ports)


def suspects(changes: Iterable[tuple[PortRules | None, PortRules | None]]) -> Suspects:
    """From (previous, current) rules. A port that only gained endpoints keeps all its flows, unless it had none."""
    addresses: dict[tuple[str, int], frozenset[tuple[str, int]]] = {}
    node_ports: dict[int, frozenset[tuple[str, int]]] = {}
    for old, new in changes:
        for rules in (old, new):
            if rules is None or rules.protocol != "UDP" or not _stale(old, new):
                continue
            # addresses that only the previous rules have may lead nowhere any more
            allowed = frozenset((target.ip, target.port) for target in (_served_by(new) if rules is new and new else ()))
            for address in (rules.cluster_ip, *rules.external_ips, *rules.load_balancer_ips):
                addresses[address, rules.port] = allowed
            if rules.node_port:
                node_ports[rules.node_port] = allowed
    return Suspects(addresses, node_ports)


def everything(ports: Mapping[PortName, PortRules]) -> Suspects:
    """At start: whatever was missed while no proxy ran."""
    return suspects((None, rules) for rules in ports.values())


def _stale(old: PortRules | None, new: PortRules | None) -> bool:
    if old is None or new is None:
        return True
    if not old.all_targets or _served_by(old) - _served_by(new):
        return True
    return _where(old) != _where(new)


def _served_by(rules: PortRules) -> set[Target]:
    return {*rules.all_targets, *rules.lingering}


def _where(rules: PortRules) -> tuple[object, ...]:
    return (rules.cluster_ip, rules.port, rules.node_port, rules.external_ips, rules.load_balancer_ips)


def stale_flows(flows: Sequence[Flow], doubtful: Suspects, node_addresses: Collection[str]) -> list[Flow]:
    """Those that lead elsewhere than to an allowed target. A port alone does not make a node port: the flow must be to
    this node or be translated. With no target left, an untranslated flow is harmless but an old translation is not."""
    found = []
    for flow in flows:
        allowed = doubtful.addresses.get((flow.destination, flow.port))
        if allowed is None:
            allowed = doubtful.node_ports.get(flow.port)
            if allowed is not None and not (flow.translated or _is_local(flow.destination, node_addresses)):
                continue
        if allowed is not None and (flow.reply_source, flow.reply_port) not in allowed:
            found.append(flow)
    return found


def _is_local(address: str, node_addresses: Collection[str]) -> bool:
    return address in node_addresses or address.startswith("127.") or address == "::1"

"""The forwarding plan: services and endpoints, decided; neutral to how a packet filter expresses it.

``proxier`` calls :func:`plan_port` for every port that changed and hands the result to a backend. Pure.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from netproxy.topology import categorize
from netproxy.trackers.endpoints import Endpoint
from netproxy.trackers.nodes import NodeFacts
from netproxy.trackers.services import Family, PortName, ServicePort


class Verdict(Enum):
    """What becomes of traffic to an address of a service."""

    FORWARD = "forward"
    REJECT = "reject"  # no endpoint anywhere: the sender learns at once
    DROP = "drop"  # none on this node under policy Local: a balancer must find another node


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """One endpoint that receives traffic."""

    ip: str
    port: int
    local: bool = False

    def __str__(self) -> str:
        return f"[{self.ip}]:{self.port}" if ":" in self.ip else f"{self.ip}:{self.port}"


@dataclass(frozen=True, slots=True)
class PortRules:
    """How traffic to one service port is treated on this node.

    Inside traffic (to the cluster IP) goes to ``internal_targets`` by ``internal``; outside traffic (node port, external and
    balancer addresses) by ``external``: under policy Local to ``local`` keeping its source, but what comes from pods or this
    node itself goes to ``cluster``, as if it had used the cluster IP.
    """

    name: PortName
    family: Family
    cluster_ip: str
    port: int
    internal: Verdict
    external: Verdict
    cluster: tuple[Target, ...] = ()
    local: tuple[Target, ...] = ()
    lingering: tuple[Target, ...] = ()  # UDP: they get no new client, but may serve those they have until they are gone
    internal_local: bool = False
    external_local: bool = False
    node_port: int = 0
    external_ips: tuple[str, ...] = ()
    load_balancer_ips: tuple[str, ...] = ()
    source_ranges: tuple[str, ...] = ()
    node_in_source_ranges: bool = False
    affinity_seconds: int = 0
    health_check_port: int = 0

    @property
    def protocol(self) -> str:
        return self.name.protocol

    @property
    def internal_targets(self) -> tuple[Target, ...]:
        return self.local if self.internal_local else self.cluster

    @property
    def external_targets(self) -> tuple[Target, ...]:
        return self.local if self.external_local else self.cluster

    @property
    def externally_accessible(self) -> bool:
        return bool(self.node_port or self.external_ips or self.load_balancer_ips)

    @property
    def all_targets(self) -> tuple[Target, ...]:
        """Every target that any kind of traffic may reach, sorted."""
        if not self.local or self.local == self.cluster:
            return self.cluster or self.local
        return tuple(sorted({*self.cluster, *self.local}))


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """What a service's health check port says to load balancers: how many endpoints of it run here."""

    service: str
    port: int
    local_endpoints: int


@dataclass(frozen=True, slots=True)
class PlanChange:
    """What a backend must change: rules by port, None for a port that is gone. ``node`` is the state of this node."""

    ports: Mapping[PortName, PortRules | None] = field(default_factory=dict)
    node: NodeFacts = field(default_factory=lambda: NodeFacts(""))


def plan_port(port: ServicePort, endpoints: Sequence[Endpoint], node: NodeFacts) -> PortRules:
    """Decide for one service port."""
    reach = categorize(port, endpoints, node)
    cluster, local = _targets(reach.cluster), _targets(reach.local)
    return PortRules(
        port.name,
        port.family,
        port.cluster_ip,
        port.port,
        internal=_verdict(local if port.internal_local else cluster, reach.anywhere),
        external=_verdict(local if port.external_local else cluster, reach.anywhere),
        cluster=cluster,
        local=local,
        lingering=_lingering(endpoints, {*cluster, *local}) if port.name.protocol == "UDP" else (),
        internal_local=port.internal_local,
        external_local=port.external_local,
        node_port=port.node_port,
        external_ips=port.external_ips,
        load_balancer_ips=port.load_balancer_ips,
        source_ranges=port.source_ranges,
        node_in_source_ranges=_contains(port.source_ranges, node.addresses),
        affinity_seconds=port.affinity_seconds,
        health_check_port=port.health_check_port,
    )


def _targets(endpoints: Sequence[Endpoint]) -> tuple[Target, ...]:
    return tuple(Target(endpoint.ip, endpoint.port, endpoint.local) for endpoint in endpoints)


def _lingering(endpoints: Sequence[Endpoint], used: Collection[Target]) -> tuple[Target, ...]:
    return tuple(target for target in _targets([each for each in endpoints if each.serving]) if target not in used)


def _verdict(targets: Sequence[Target], anywhere: bool) -> Verdict:
    if targets:
        return Verdict.FORWARD
    return Verdict.DROP if anywhere else Verdict.REJECT


def _contains(ranges: Sequence[str], addresses: Sequence[str]) -> bool:
    if not ranges:
        return False
    import ipaddress

    networks = [ipaddress.ip_network(each) for each in ranges]
    return any(ipaddress.ip_address(address) in network for address in addresses for network in networks)


def health_checks(ports: Sequence[ServicePort], endpoints: Mapping[tuple[str, str], Sequence[Endpoint]]) -> HealthCheck | None:
    """The health check of a service, if it has one: local ready addresses counted once, whatever the number of ports."""
    port = next((each for each in ports if each.health_check_port), None)
    if port is None:
        return None
    wanted = {(each.name.port, each.name.protocol) for each in ports}
    local = {each.ip for key in wanted for each in endpoints.get(key, ()) if each.local and each.ready}
    return HealthCheck(port.name.service, port.health_check_port, len(local))

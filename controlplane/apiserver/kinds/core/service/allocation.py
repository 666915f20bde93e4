"""What a Service claims in the transaction that stores it: cluster IPs and node ports, new ones taken, old ones freed."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from controlplane.apiserver.kinds.config import KindsConfig
from controlplane.apiserver.kinds.core.service import addresses, defaults, node_ports
from controlplane.apiserver.kinds.core.service.addresses import ClusterIPs
from controlplane.apiserver.kinds.core.service.node_ports import NodePorts, ports_of
from controlplane.apiserver.registry.strategy import Allocation
from controlplane.apiserver.storage.interface import Condition, Delete, Operation, Put

Object = dict[str, Any]


class ServiceClaims:
    """Addresses and ports of all Services. Holds no state but the ranges: the store knows what is taken."""

    def __init__(self, config: KindsConfig) -> None:
        self._addresses = ClusterIPs(config.service_cluster_ip_ranges, config.reader)
        self._ports = NodePorts(*config.node_port_range, config.reader)

    @property
    def offered(self) -> tuple[str, ...]:
        """The IP families of the cluster's ranges, the default one first."""
        return self._addresses.offered

    async def allocate(self, service: Object, old: Object | None, now: datetime) -> Allocation:
        """Fill in what is missing and claim what is new; free what an update gave up. Raises 422 for what cannot be had."""
        held_addresses, held_ports = set(_addresses_of(old)), set(ports_of(old))
        await self._addresses.choose(service, held_addresses)
        await self._ports.choose(service, held_ports)
        wanted_addresses, wanted_ports = set(_addresses_of(service)), set(ports_of(service))
        claims = self._claims(service, sorted(wanted_addresses - held_addresses), sorted(wanted_ports - held_ports), now)
        freed = _freed(sorted(held_addresses - wanted_addresses), sorted(held_ports - wanted_ports))
        return Allocation([Condition(claim.key, 0) for claim in claims], [*claims, *freed])

    def of(self, service: Object, now: datetime) -> list[Put]:
        """All claims that belong to a stored Service."""
        return self._claims(service, _addresses_of(service), dict.fromkeys(ports_of(service)), now)

    def _claims(self, service: Object, listed: Iterable[str], ports: Iterable[int], now: datetime) -> list[Put]:
        claims = [Put(addresses.PREFIX + address, self._addresses.claim(address, service, now)) for address in listed]
        return claims + [Put(f"{node_ports.PREFIX}{port}", _holder(service)) for port in ports]

    def release(self, service: Object) -> list[Operation]:
        return list(_freed(_addresses_of(service), dict.fromkeys(ports_of(service))))


def _freed(listed: Iterable[str], ports: Iterable[int]) -> Iterator[Delete]:
    yield from (Delete(addresses.PREFIX + address) for address in listed)
    yield from (Delete(f"{node_ports.PREFIX}{port}") for port in ports)


def _holder(service: Object) -> bytes:
    metadata = service["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}".encode()


def _addresses_of(service: Mapping[str, Any] | None) -> Iterator[str]:
    """Claimed addresses; a Service of another type may show addresses that mean nothing."""
    spec = (service or {}).get("spec") or {}
    if defaults.needs_cluster_ip(spec):
        yield from (address for address in spec.get("clusterIPs") or () if address != "None")

"""Which cluster IPs and node ports a Service needs, and their claims for the transaction that stores it.

A claim on an address is an IPAddress object, as in upstream since 1.33; a claim on a port is a key that names its holder.
Values picked here are marked by their type (``_PickedText``, ``_PickedNumber``): when the transaction loses a race the
registry asks again with the same object, and a picked value is then picked anew while a requested one is an error.
"""

import ipaddress
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from apimachinery import errors, fieldpath
from apimachinery.fieldpath import FieldError
from apimachinery.times import format_time
from controlplane.apiserver.kinds.config import KindsConfig
from controlplane.apiserver.kinds.core.service import defaults
from controlplane.apiserver.kinds.core.service.families import families_of, family_of
from controlplane.apiserver.registry import allocation
from controlplane.apiserver.registry.allocation import Pool, RangeFullError
from controlplane.apiserver.registry.strategy import Allocation
from controlplane.apiserver.storage.encoding import encode
from controlplane.apiserver.storage.interface import Condition, Delete, Operation, Put

Object = dict[str, Any]

ADDRESS_PREFIX = "/registry/ipaddresses.networking.k8s.io/"
PORT_PREFIX = "/registry/ranges/servicenodeports/"


class _PickedText(str):
    """An address chosen by the pool, not by a client."""

    __slots__ = ()


class _PickedNumber(int):
    """A port chosen by the pool, not by a client."""

    __slots__ = ()


class ServiceClaims:
    """Addresses and ports of all Services. Holds no state but the ranges: the store knows what is taken."""

    def __init__(self, config: KindsConfig, new_uid: Callable[[], str] = lambda: str(uuid.uuid4())) -> None:
        reader = config.reader
        self.offered = families_of(config.service_cluster_ip_ranges)
        self._ranges = dict(zip(self.offered, config.service_cluster_ip_ranges, strict=True))
        self._items = {family: allocation.addresses(cidr) for family, cidr in self._ranges.items()}
        self._addresses = {family: Pool(reader, ADDRESS_PREFIX, items) for family, items in self._items.items()} if reader else {}
        self._low, self._high = config.node_port_range
        self._ports = Pool(reader, PORT_PREFIX, allocation.ports(self._low, self._high)) if reader else None
        self._new_uid = new_uid

    async def allocate(self, service: Object, old: Object | None, now: datetime) -> Allocation:
        """Fill in what is missing and claim what is new; free what an update gave up. Raises 422 for what cannot be had."""
        held_addresses, held_ports = set(_addresses(old)), set(_ports(old))
        await self._choose_addresses(service, held_addresses)
        await self._choose_ports(service, held_ports)
        addresses, ports = set(_addresses(service)), set(_ports(service))
        conditions: list[Condition] = []
        operations: list[Operation] = []
        for address in sorted(addresses - held_addresses):
            conditions.append(Condition(ADDRESS_PREFIX + address, 0))
            operations.append(Put(ADDRESS_PREFIX + address, self._claim(address, service, now)))
        for port in sorted(ports - held_ports):
            conditions.append(Condition(f"{PORT_PREFIX}{port}", 0))
            operations.append(Put(f"{PORT_PREFIX}{port}", _holder(service)))
        operations += [Delete(ADDRESS_PREFIX + address) for address in sorted(held_addresses - addresses)]
        operations += [Delete(f"{PORT_PREFIX}{port}") for port in sorted(held_ports - ports)]
        return Allocation(conditions, operations)

    def release(self, service: Object) -> list[Operation]:
        freed = [Delete(ADDRESS_PREFIX + address) for address in _addresses(service)]
        return [*freed, *(Delete(f"{PORT_PREFIX}{port}") for port in dict.fromkeys(_ports(service)))]

    def _claim(self, address: str, service: Object, now: datetime) -> bytes:
        metadata = service["metadata"]
        labels = {
            "ipaddress.kubernetes.io/ip-family": family_of(address),
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
        }
        parent = {"group": "", "name": metadata["name"], "namespace": metadata["namespace"], "resource": "services"}
        claim = {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "IPAddress",
            "metadata": {
                "name": address,
                "uid": self._new_uid(),
                "creationTimestamp": format_time(now),
                "generation": 1,
                "labels": labels,
            },
            "spec": {"parentRef": parent},
        }
        return encode(claim)

    # ------------------------------------------------------------------ addresses

    async def _choose_addresses(self, service: Object, held: set[str]) -> None:
        spec = service["spec"]
        if not defaults.needs_cluster_ip(spec) or defaults.is_headless(spec):
            return
        listed: list[str] = list(spec.get("clusterIPs") or ())
        families = spec.get("ipFamilies") or ["IPv4"]
        del listed[len(families) :]
        for position, family in enumerate(families):
            wanted = listed[position] if position < len(listed) else None
            if wanted in held:
                continue
            if wanted is not None and not isinstance(wanted, _PickedText):
                await self._check_address(service, wanted)
                continue
            picked = await self._pick_address(family)
            listed[position:] = [picked, *listed[position + 1 :]]
        spec["clusterIP"], spec["clusterIPs"] = listed[0], listed

    async def _pick_address(self, family: str) -> str:
        try:
            return _PickedText(await self._addresses[family].pick())
        except RangeFullError as full:
            raise errors.internal(f"failed to allocate a serviceIP: {full}") from None

    async def _check_address(self, service: Object, address: str) -> None:
        cidr = self._ranges[family_of(address)]
        network, wanted = ipaddress.ip_network(cidr), ipaddress.ip_address(address)
        ends = (network.network_address, network.broadcast_address if network.version == 4 else network.network_address)
        if wanted not in network:
            problem = "the provided network does not match the current range"
        elif wanted in ends:
            problem = f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {cidr}"
        elif await self._addresses[family_of(address)].is_taken(address):
            problem = allocation.ALREADY_ALLOCATED_IP
        else:
            return
        text = f"failed to allocate IP {address}: {problem}"
        raise _refused(service, fieldpath.invalid("spec.clusterIPs", service["spec"]["clusterIPs"], text))

    # ------------------------------------------------------------------ ports

    async def _choose_ports(self, service: Object, held: set[int]) -> None:
        spec = service["spec"]
        if spec.get("type") in defaults.NODE_PORT_TYPES:
            await self._choose_node_ports(service, held, pick=defaults.needs_node_ports(spec))
        if defaults.needs_health_port(spec):
            wanted = spec.get("healthCheckNodePort") or 0
            if wanted in held:
                return
            if wanted and not isinstance(wanted, _PickedNumber):
                problem = await self._port_problem(wanted)
                if problem:
                    raise errors.internal(f"failed to allocate requested HealthCheck NodePort {wanted}: {problem}")
            else:
                spec.pop("healthCheckNodePort", None)
                spec["healthCheckNodePort"] = await self._pick_port(service)

    async def _choose_node_ports(self, service: Object, held: set[int], *, pick: bool) -> None:
        """Check requested ports; ``pick`` the others too, which a load balancer may do without."""
        ports = service["spec"].get("ports") or ()
        for port in ports:
            if isinstance(port.get("nodePort"), _PickedNumber) and port["nodePort"] not in held:
                del port["nodePort"]
        by_port: dict[int, int] = {port["port"]: port["nodePort"] for port in ports if port.get("nodePort")}
        checked = set(held)
        for position, port in enumerate(ports):
            wanted = port.get("nodePort") or 0
            if wanted:
                if wanted not in checked:
                    problem = await self._port_problem(wanted)
                    if problem:
                        raise _refused(service, fieldpath.invalid(f"spec.ports[{position}].nodePort", wanted, problem))
                checked.add(wanted)
            elif pick:
                # TCP and UDP of one port number share their node port, which serves each protocol by itself
                number = by_port.get(port["port"]) or await self._pick_port(service)
                by_port[port["port"]] = port["nodePort"] = _PickedNumber(number)

    async def _pick_port(self, service: Object) -> int:
        assert self._ports is not None
        try:
            return _PickedNumber(await self._ports.pick({str(port) for port in _ports(service)}))
        except RangeFullError as full:
            raise errors.internal(f"failed to allocate a nodePort: {full}") from None

    async def _port_problem(self, port: int) -> str:
        """Why a requested port cannot be had, or an empty string."""
        assert self._ports is not None
        if not self._low <= port <= self._high:
            return f"provided port is not in the valid range. The range of valid ports is {self._low}-{self._high}"
        return allocation.ALREADY_ALLOCATED_PORT if await self._ports.is_taken(str(port)) else ""


def _refused(service: Object, error: FieldError) -> errors.StatusError:
    return errors.invalid("Service", service["metadata"]["name"], [error])


def _holder(service: Object) -> bytes:
    metadata = service["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}".encode()


def _addresses(service: Mapping[str, Any] | None) -> Iterator[str]:
    """Claimed addresses; a Service of another type may show addresses that mean nothing."""
    spec = (service or {}).get("spec") or {}
    if defaults.needs_cluster_ip(spec):
        yield from (address for address in spec.get("clusterIPs") or () if address != "None")


def _ports(service: Mapping[str, Any] | None) -> Iterator[int]:
    spec = (service or {}).get("spec") or {}
    if spec.get("type") in defaults.NODE_PORT_TYPES:
        yield from (port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort"))
        if spec.get("healthCheckNodePort"):
            yield spec["healthCheckNodePort"]

"""Cluster IPs and node ports of Services, claimed in the very transaction that stores the Service.

A claimed address is an ``IPAddress`` object of networking.k8s.io under its own name, as upstream keeps them since 1.33; a claimed
port is a small record beside it. A claim is the condition that the key does not exist yet: two API servers cannot hand out
the same address, and a Service that is not stored leaves nothing behind. The Service strategy calls this from ``allocate``.
"""

import ipaddress
import random
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson

from apimachinery import fieldpath
from apimachinery.fieldpath import FieldError
from apimachinery.times import format_time
from controlplane.apiserver.registry.strategy import Allocation
from controlplane.apiserver.storage.interface import Backend, Condition, Delete, Operation, Put

Object = dict[str, Any]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

IP_PREFIX = "/registry/ipaddresses.networking.k8s.io/"
PORT_PREFIX = "/registry/ranges/servicenodeports/"
_GUESSES = 64  # random addresses tried before the free ones are counted out
_MAX_SCAN = 1 << 16


@dataclass(slots=True)
class Claims:
    """What a Service holds or wants."""

    addresses: list[str] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)


class ServiceAllocator:
    """``ranges`` as CIDRs, the default family first; ``ports`` with both ends included."""

    def __init__(
        self,
        backend: Backend,
        ranges: Sequence[str],
        ports: tuple[int, int],
        pick: Callable[[int], int] = random.randrange,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._backend = backend
        self._networks: list[Network] = [ipaddress.ip_network(text) for text in ranges]
        self._ports = ports
        self._pick, self._now = pick, now

    async def allocate(self, service: Object, old: Object | None) -> tuple[Allocation, list[FieldError]]:
        """Fill in what ``service`` needs and has not got, and claim it; give back what ``old`` no longer uses.

        Errors name addresses or ports that cannot be had; then nothing may be stored.
        """
        held = claims_of(old) if old else Claims()
        if old:
            carry_over(service, old)
        found: list[FieldError] = []
        used_ips = await self._used(IP_PREFIX)
        used_ports = await self._used(PORT_PREFIX)
        self._fill_addresses(service, held, used_ips, found)
        self._fill_ports(service, held, used_ports, found)
        wanted = claims_of(service)
        conditions: list[Condition] = []
        operations: list[Operation] = []
        for key, value in self._records(service, wanted, held):
            conditions.append(Condition(key, 0))
            operations.append(Put(key, value))
        operations += _dropped(held, wanted)
        return Allocation(conditions, operations), found

    def release(self, service: Object) -> list[Operation]:
        """What to give back in the transaction that removes ``service``."""
        return _dropped(claims_of(service), Claims())

    async def _used(self, prefix: str) -> set[str]:
        found = await self._backend.range(prefix)
        return {item.key.removeprefix(prefix) for item in found.items}

    # ------------------------------------------------------------------ addresses

    def _fill_addresses(self, service: Object, held: Claims, used: set[str], found: list[FieldError]) -> None:
        spec = service.setdefault("spec", {})
        if spec.get("type") == "ExternalName" or spec.get("clusterIP") == "None":
            return
        families = spec.get("ipFamilies") or [_family(self._networks[0])]
        given = list(spec.get("clusterIPs") or ([spec["clusterIP"]] if spec.get("clusterIP") else []))
        chosen: list[str] = []
        for position, family in enumerate(families):
            network = next((one for one in self._networks if _family(one) == family), None)
            path = f"spec.clusterIPs[{position}]" if position else "spec.clusterIP"
            if network is None:
                text = "not configured on this cluster"
                found.append(fieldpath.invalid(f"spec.ipFamilies[{position}]", family, text))
                continue
            if position < len(given) and given[position]:
                self._check_given(given[position], network, held, used, path, found)
                chosen.append(given[position])
                continue
            free = self._free_address(network, used)
            if free is None:
                found.append(fieldpath.internal(path, f"failed to allocate a serviceIP: range {network} is full"))
                continue
            used.add(free)
            chosen.append(free)
        if chosen:
            spec["clusterIP"], spec["clusterIPs"] = chosen[0], chosen

    def _check_given(self, text: str, network: Network, held: Claims, used: set[str], path: str, found: list[FieldError]) -> None:
        if text in held.addresses:
            return
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return  # the strategy's validation words this
        if address not in network or address == network.network_address or _is_broadcast(address, network):
            why = f"provided IP is not in the valid range. The range of valid IPs is {network}"
            found.append(fieldpath.invalid(path, text, f"failed to allocate IP {text}: {why}"))
        elif text in used:
            found.append(fieldpath.invalid(path, text, f"failed to allocate IP {text}: provided IP is already allocated"))

    def _free_address(self, network: Network, used: set[str]) -> str | None:
        """Random in the upper part; the lower part is left to people who choose addresses, until nothing else is free."""
        size = network.num_addresses - (2 if network.version == 4 else 1)
        reserved = 0 if size <= 16 else min(max(16, size // 16), 256)
        base = int(network.network_address) + 1
        for low, high in ((reserved, size), (0, reserved)):
            span = high - low
            if span <= 0:
                continue
            for _ in range(_GUESSES):
                text = _address(network, base + low + self._pick(span))
                if text not in used:
                    return text
            for offset in range(low, min(high, low + _MAX_SCAN)):
                text = _address(network, base + offset)
                if text not in used:
                    return text
        return None

    # ------------------------------------------------------------------ ports

    def _fill_ports(self, service: Object, held: Claims, used: set[str], found: list[FieldError]) -> None:
        spec = service["spec"]
        if not needs_node_ports(spec):
            return
        by_port: dict[int, int] = {}  # one number serves TCP and UDP of the same service port
        for position, port in enumerate(spec.get("ports") or []):
            path = f"spec.ports[{position}].nodePort"
            number = port.get("nodePort")
            if number:
                self._check_port(number, held, used, by_port, path, found)
            elif port.get("port") in by_port and _other_protocol(spec["ports"][:position], port):
                number = by_port[port["port"]]
            else:
                number = self._free_port(used)
                if number is None:
                    found.append(fieldpath.internal(path, "failed to allocate a nodePort: range is full"))
                    continue
            port["nodePort"] = number
            used.add(str(number))
            by_port[port.get("port", 0)] = number
        if needs_health_check_port(spec) and not spec.get("healthCheckNodePort"):
            number = self._free_port(used)
            if number is None:
                found.append(fieldpath.internal("spec.healthCheckNodePort", "failed to allocate a nodePort: range is full"))
            else:
                spec["healthCheckNodePort"] = number

    def _check_port(
        self, number: int, held: Claims, used: set[str], by_port: dict[int, int], path: str, found: list[FieldError]
    ) -> None:
        low, high = self._ports
        if number in held.ports or number in by_port.values():
            return
        if not low <= number <= high:
            text = f"provided port is not in the valid range. The range of valid ports is {low}-{high}"
            found.append(fieldpath.invalid(path, number, text))
        elif str(number) in used:
            found.append(fieldpath.invalid(path, number, "provided port is already allocated"))

    def _free_port(self, used: set[str]) -> int | None:
        low, high = self._ports
        for _ in range(_GUESSES):
            number = low + self._pick(high - low + 1)
            if str(number) not in used:
                return number
        return next((number for number in range(low, high + 1) if str(number) not in used), None)

    # ------------------------------------------------------------------ records

    def _records(self, service: Object, wanted: Claims, held: Claims) -> list[tuple[str, bytes]]:
        meta = service["metadata"]
        parent = {"group": "", "resource": "services", "namespace": meta.get("namespace", ""), "name": meta["name"]}
        records = [
            (IP_PREFIX + address, orjson.dumps(self._ip_object(address, parent)))
            for address in wanted.addresses
            if address not in held.addresses
        ]
        claim = orjson.dumps({"parentRef": parent})
        records += [(f"{PORT_PREFIX}{port}", claim) for port in dict.fromkeys(wanted.ports) if port not in held.ports]
        return records

    def _ip_object(self, address: str, parent: Object) -> Object:
        version = ipaddress.ip_address(address).version
        return {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "IPAddress",
            "metadata": {
                "name": address,
                "uid": str(uuid.uuid4()),
                "creationTimestamp": format_time(self._now()),
                "labels": {
                    "ipaddress.kubernetes.io/ip-family": f"IPv{version}",
                    "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
                },
            },
            "spec": {"parentRef": parent},
        }


def claims_of(service: Object) -> Claims:
    """The addresses and ports that a Service holds."""
    spec = service.get("spec") or {}
    addresses: list[str] = []
    if spec.get("type") != "ExternalName" and spec.get("clusterIP") not in (None, "", "None"):
        addresses = list(spec.get("clusterIPs") or [spec["clusterIP"]])
    ports = [port["nodePort"] for port in spec.get("ports") or [] if port.get("nodePort")] if needs_node_ports(spec) else []
    if needs_health_check_port(spec) and spec.get("healthCheckNodePort"):
        ports.append(spec["healthCheckNodePort"])
    return Claims(addresses, list(dict.fromkeys(ports)))


def carry_over(service: Object, old: Object) -> None:
    """An update that leaves addresses and node ports out keeps the ones it has (clients often send their own file again)."""
    spec, before = service.setdefault("spec", {}), old.get("spec") or {}
    if spec.get("type") != "ExternalName" and before.get("type") != "ExternalName":
        if not spec.get("clusterIP") and before.get("clusterIP"):
            spec["clusterIP"] = before["clusterIP"]
        if not spec.get("clusterIPs") and before.get("clusterIPs") and spec.get("clusterIP") == before.get("clusterIP"):
            spec["clusterIPs"] = list(before["clusterIPs"])
    if needs_node_ports(spec) and needs_node_ports(before):
        taken = {port.get("nodePort") for port in spec.get("ports") or []}
        known = {(port.get("protocol") or "TCP", port.get("port")): port.get("nodePort") for port in before.get("ports") or []}
        for port in spec.get("ports") or []:
            number = known.get((port.get("protocol") or "TCP", port.get("port")))
            if not port.get("nodePort") and number and number not in taken:
                port["nodePort"] = number
    if needs_health_check_port(spec) and needs_health_check_port(before) and not spec.get("healthCheckNodePort"):
        spec["healthCheckNodePort"] = before.get("healthCheckNodePort")


def needs_node_ports(spec: Object) -> bool:
    kind = spec.get("type")
    return kind == "NodePort" or (kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False)


def needs_health_check_port(spec: Object) -> bool:
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _dropped(held: Claims, wanted: Claims) -> list[Operation]:
    gone: list[Operation] = [Delete(IP_PREFIX + one) for one in held.addresses if one not in wanted.addresses]
    return gone + [Delete(f"{PORT_PREFIX}{port}") for port in held.ports if port not in wanted.ports]


def _other_protocol(earlier: Sequence[Object], port: Object) -> bool:
    return all(
        (one.get("protocol") or "TCP") != (port.get("protocol") or "TCP")
        for one in earlier
        if one.get("port") == port.get("port")
    )


def _family(network: Network) -> str:
    return f"IPv{network.version}"


def _address(network: Network, number: int) -> str:
    return str(ipaddress.IPv4Address(number) if network.version == 4 else ipaddress.IPv6Address(number))


def _is_broadcast(address: ipaddress.IPv4Address | ipaddress.IPv6Address, network: Network) -> bool:
    return network.version == 4 and address == network.broadcast_address

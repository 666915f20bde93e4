"""Cluster IPs: chosen from the ranges of the server's flag and of ServiceCIDRs, claimed as IPAddress objects (since 1.33)."""

import ipaddress
import uuid
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any

import orjson

from apimachinery import errors, fieldpath
from apimachinery.times import format_time
from controlplane.apiserver.kinds.core.service import defaults
from controlplane.apiserver.kinds.core.service.families import families_of, family_of
from controlplane.apiserver.kinds.core.service.picked import PickedText
from controlplane.apiserver.registry.allocation import ALREADY_ALLOCATED_IP, Pool, RangeFullError, Reader, addresses
from controlplane.apiserver.storage.encoding import encode
from controlplane.apiserver.storage.layout import resource_prefix

Object = dict[str, Any]

PREFIX = resource_prefix("networking.k8s.io", "ipaddresses")
_RANGES = resource_prefix("networking.k8s.io", "servicecidrs")


class ClusterIPs:
    """Fills ``clusterIP`` and ``clusterIPs``; ``claim`` makes the value that holds an address."""

    def __init__(self, ranges: tuple[str, ...], reader: Reader | None, new_uid: Callable[[], str] | None = None) -> None:
        self.offered = families_of(ranges)
        self._reader = reader
        self._default = dict(zip(self.offered, ranges, strict=True))
        self._new_uid = new_uid or (lambda: str(uuid.uuid4()))

    async def choose(self, service: Object, held: set[str]) -> None:
        """An address for each family: a requested one is checked, a missing one picked. Raises 422."""
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
            if wanted is not None and not isinstance(wanted, PickedText):
                await self._check(service, wanted)
                continue
            listed[position:] = [await self._pick(family), *listed[position + 1 :]]
        spec["clusterIP"], spec["clusterIPs"] = listed[0], listed

    async def _pick(self, family: str) -> str:
        async for cidr in self._ranges(family):
            try:
                return PickedText(await self._pool(cidr).pick())
            except RangeFullError:
                continue
        raise errors.internal(f"failed to allocate a serviceIP: {RangeFullError()}")

    async def _check(self, service: Object, address: str) -> None:
        problem = await self._problem(address)
        if problem:
            text = f"failed to allocate IP {address}: {problem}"
            error = fieldpath.invalid("spec.clusterIPs", service["spec"]["clusterIPs"], text)
            raise errors.invalid("Service", service["metadata"]["name"], [error])

    async def _problem(self, address: str) -> str:
        wanted = ipaddress.ip_address(address)
        async for cidr in self._ranges(family_of(address)):
            network = ipaddress.ip_network(cidr)
            if wanted not in network:
                continue
            last = network.broadcast_address if network.version == 4 else network.network_address
            if wanted in (network.network_address, last):
                return f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {cidr}"
            return ALREADY_ALLOCATED_IP if await self._pool(cidr).is_taken(address) else ""
        return "the provided network does not match the current range"

    def _pool(self, cidr: str) -> Pool:
        assert self._reader is not None
        return Pool(self._reader, PREFIX, addresses(cidr))

    async def _ranges(self, family: str) -> AsyncIterator[str]:
        """The flag's range; then those of ServiceCIDRs that are not being deleted, read only when the first did not do."""
        assert self._reader is not None
        default = self._default.get(family)
        if default:
            yield default
        for entry in (await self._reader.range(_RANGES)).items:
            stored = orjson.loads(entry.value)
            if not stored["metadata"].get("deletionTimestamp"):
                for cidr in (stored.get("spec") or {}).get("cidrs") or ():
                    if family_of(cidr) == family and cidr != default:
                        yield cidr

    def claim(self, address: str, service: Object, now: datetime) -> bytes:
        """An IPAddress that names the Service."""
        holder = service["metadata"]
        labels = {
            "ipaddress.kubernetes.io/ip-family": family_of(address),
            "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
        }
        metadata = {
            "name": address,
            "uid": self._new_uid(),
            "creationTimestamp": format_time(now),
            "generation": 1,
            "labels": labels,
        }
        parent = {"name": holder["name"], "namespace": holder["namespace"], "resource": "services"}
        spec = {"parentRef": parent}
        return encode({"apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": metadata, "spec": spec})

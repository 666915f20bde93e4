"""service_cidr: a ServiceCIDR that is being deleted stays while addresses of Services would be in no range without it.

Every ServiceCIDR gets a finalizer and the condition Ready. Upstream's ``pkg/controller/servicecidrs``.
"""

import ipaddress
from collections.abc import Iterable, Iterator, Sequence

from apimachinery.meta import (
    Object,
    add_finalizer,
    clone,
    deletion_time,
    get_condition,
    is_deleting,
    labels_of,
    name_of,
    remove_finalizer,
)
from apimachinery.resources import IP_ADDRESSES, SERVICE_CIDRS
from apimachinery.times import format_time
from client.rest import APPLY
from controlplane.controllers.controller import Environment, Loop

FINALIZER = "networking.k8s.io/service-cidr-finalizer"
_MANAGED_BY, _ALLOCATOR = "ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io"
_GRACE_SECONDS = 10.0
"""For as long an allocator may not have heard of the deletion."""
_READY = ("True", "", "Kubernetes Service CIDR is ready")
_IN_USE = "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR"
_TERMINATING = ("False", "Terminating", _IN_USE)

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def networks_of(cidr: Object) -> Iterator[Network]:
    for text in (cidr.get("spec") or {}).get("cidrs") or ():
        yield ipaddress.ip_network(text, strict=False)


def may_go(cidr: Object, others: Iterable[Object], addresses: Iterable[Address]) -> bool:
    """Whether no address is left without a range: all of its own lie within others', or none of ``addresses`` needs it.

    ``others`` are those that stay; ``addresses`` those of Services.
    """
    staying = [network for other in others for network in networks_of(other)]
    own = list(networks_of(cidr))
    if all(any(_within(network, other) for other in staying) for network in own):
        return True
    return not any(_covers(own, address) and not _covers(staying, address) for address in addresses)


def _within(network: Network, other: Network) -> bool:
    if isinstance(network, ipaddress.IPv4Network):
        return isinstance(other, ipaddress.IPv4Network) and network.subnet_of(other)
    return isinstance(other, ipaddress.IPv6Network) and network.subnet_of(other)


def _covers(networks: Sequence[Network], address: Address) -> bool:
    return any(address in network for network in networks)


class ServiceCIDRController:
    """One loop over ServiceCIDRs, which are few: each change of one, and each address that goes, wakes all that wait to go."""

    name = "service-cidr-controller"

    def __init__(self, env: Environment) -> None:
        self._client, self._clock = env.client, env.clock
        self._cidrs, self._addresses = env.watch(SERVICE_CIDRS), env.watch(IP_ADDRESSES)
        self._loop = Loop(self.name, self.reconcile, env, workers=5)
        self._cidrs.add_handler(on_add=self._changed, on_update=lambda old, new: self._changed(new), on_delete=self._wake)
        self._addresses.add_handler(on_add=self._wake, on_delete=self._wake)

    async def run(self) -> None:
        await self._loop.run()

    def _changed(self, cidr: Object) -> None:
        self._loop.add_object(cidr)
        self._wake(cidr)

    def _wake(self, _: Object) -> None:
        for cidr in self._cidrs.lister.list():
            if is_deleting(cidr):
                self._loop.add_object(cidr)

    async def reconcile(self, key: str) -> float | None:
        cached = self._cidrs.lister.get_key(key)
        if cached is None:
            return None
        changed = clone(cached)
        since = deletion_time(cached)
        if since is None:
            if add_finalizer(changed, FINALIZER):
                await self._client.update(SERVICE_CIDRS, changed)
            await self._say(cached, *_READY)
            return None
        others = [each for each in self._cidrs.lister.list() if name_of(each) != key and not is_deleting(each)]
        if not may_go(cached, others, self._given()):
            await self._say(cached, *_TERMINATING)
            return None
        left = _GRACE_SECONDS - (self._clock.now() - since).total_seconds()
        if left > 0:
            return left
        if remove_finalizer(changed, FINALIZER):
            await self._client.update(SERVICE_CIDRS, changed)
        return None

    def _given(self) -> Iterator[Address]:
        for each in self._addresses.lister.list():
            if labels_of(each).get(_MANAGED_BY) == _ALLOCATOR:
                yield ipaddress.ip_address(name_of(each))

    async def _say(self, cidr: Object, status: str, reason: str, message: str) -> None:
        held = get_condition(cidr, "Ready") or {}
        if (held.get("status"), held.get("reason") or "", held.get("message")) == (status, reason, message):
            return
        stamp = format_time(self._clock.now())
        condition = {"type": "Ready", "status": status, "reason": reason, "message": message, "lastTransitionTime": stamp}
        body = {
            "apiVersion": SERVICE_CIDRS.api_version,
            "kind": "ServiceCIDR",
            "metadata": {"name": name_of(cidr)},
            "status": {"conditions": [condition]},
        }
        name = name_of(cidr)
        await self._client.patch(SERVICE_CIDRS, name, body, APPLY, subresource="status", field_manager=self.name, force=True)

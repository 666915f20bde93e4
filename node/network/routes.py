"""Routes from this node to the pods of all others: each pod CIDR by way of its node's address, on one network segment.

The kubelet runs :class:`PodRoutes` when asked to (``--pod-routes=direct``). The kernel's table is compared with what the Node
objects call for; our routes carry a protocol number of their own, so nobody else's are ever touched. Nodes on other
segments need an overlay and are reported, not routed.
"""

import asyncio
import ipaddress
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Protocol

from component import logs
from component.clock import Clock

PROTOCOL = 80  # of the numbers that rtnetlink(7) leaves to administrators
_PERIOD = 60.0
_log = logs.get(__name__)


class RouteError(Exception):
    """The kernel refuses a route; the text says why."""


class RouteTable(Protocol):
    """The routes with our protocol number in the main table, as destination to gateway. Raises RouteError."""

    async def list(self) -> Mapping[str, str]: ...

    async def set(self, destination: str, gateway: str) -> None:
        """Add the route, or change its gateway."""
        ...

    async def delete(self, destination: str) -> None:
        """What is gone already is no error."""
        ...


def wanted(nodes: Iterable[Mapping[str, Any]], me: str) -> dict[str, str]:
    """The pod CIDRs of the other nodes, each with its node's internal address of the same family. Pure."""
    routes: dict[str, str] = {}
    for node in nodes:
        if node["metadata"]["name"] == me:
            continue
        spec, status = node.get("spec") or {}, node.get("status") or {}
        addresses = [each["address"] for each in status.get("addresses") or () if each.get("type") == "InternalIP"]
        for cidr in spec.get("podCIDRs") or ([spec["podCIDR"]] if spec.get("podCIDR") else []):
            family = ipaddress.ip_network(cidr).version
            gateway = next((each for each in addresses if ipaddress.ip_address(each).version == family), None)
            if gateway is not None:
                routes[cidr] = gateway
    return routes


class PodRoutes:
    """Keeps the table in line with the Node objects of which it is told; ``told`` gets the pod CIDRs of the other nodes."""

    def __init__(
        self, table: RouteTable, me: str, clock: Clock, told: Callable[[Collection[str]], None] = lambda cidrs: None
    ) -> None:
        self._table = table
        self._told = told
        self._me = me
        self._clock = clock
        self._nodes: dict[str, Mapping[str, Any]] = {}
        self._wake = asyncio.Event()

    def node_changed(self, node: Mapping[str, Any]) -> None:
        self._nodes[node["metadata"]["name"]] = node
        self._wake.set()

    def node_removed(self, node: Mapping[str, Any]) -> None:
        self._nodes.pop(node["metadata"]["name"], None)
        self._wake.set()

    async def run(self) -> None:
        """Reconcile at each change and once a minute, until cancelled. Before the first node is known nothing is removed."""
        await self._wake.wait()
        while True:
            self._wake.clear()
            await self.reconcile()
            timer = self._clock.call_later(_PERIOD, self._wake.set)
            await self._wake.wait()
            timer.cancel()

    async def reconcile(self) -> None:
        """One comparison; a route that cannot be set does not hold up the others."""
        should, present = wanted(self._nodes.values(), self._me), await self._table.list()
        self._told(should)
        for destination, gateway in should.items():
            if present.get(destination) != gateway:
                await self._try(self._table.set(destination, gateway), destination, gateway)
        for destination in present:
            if destination not in should:
                await self._try(self._table.delete(destination), destination, "")

    async def _try(self, change: Any, destination: str, gateway: str) -> None:
        try:
            await change
        except RouteError as error:
            _log.warning("Cannot route to another node's pods", pods=destination, node=gateway, err=error)


class NetlinkRoutes:
    """The kernel's table, through pyroute2 in a thread. Imported only where there are other nodes."""

    async def list(self) -> Mapping[str, str]:
        return await asyncio.to_thread(_list)

    async def set(self, destination: str, gateway: str) -> None:
        await asyncio.to_thread(_change, "replace", destination, gateway)

    async def delete(self, destination: str) -> None:
        await asyncio.to_thread(_change, "del", destination, "")


def _list() -> dict[str, str]:
    import socket

    from pyroute2 import IPRoute

    found: dict[str, str] = {}
    with IPRoute() as kernel:
        for family in (socket.AF_INET, socket.AF_INET6):
            for route in kernel.get_routes(family=family, proto=PROTOCOL):
                attributes = dict(route["attrs"])
                if "RTA_DST" in attributes and "RTA_GATEWAY" in attributes:
                    found[f"{attributes['RTA_DST']}/{route['dst_len']}"] = attributes["RTA_GATEWAY"]
    return found


def _change(how: str, destination: str, gateway: str) -> None:
    from pyroute2 import IPRoute
    from pyroute2.netlink.exceptions import NetlinkError

    more = {"gateway": gateway} if gateway else {}
    with IPRoute() as kernel:
        try:
            kernel.route(how, dst=destination, proto=PROTOCOL, **more)
        except NetlinkError as error:
            if how == "del" and error.code == 3:  # ESRCH
                return
            why = "its address is not on a network of this node" if error.code in (22, 101, 113) else str(error)
            raise RouteError(why) from None

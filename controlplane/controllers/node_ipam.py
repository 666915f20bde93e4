"""node_ipam: gives every node its range of pod addresses out of ``--cluster-cidr``."""

import ipaddress
from collections.abc import Iterable

from apimachinery.errors import StatusError
from apimachinery.meta import Object, is_deleting, name_of, uid_of
from apimachinery.objects import nodes
from apimachinery.resources import NODES
from controlplane.controllers.controller import Environment, Loop

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class RangeFullError(Exception):
    """The cluster's range has no free part left."""


class CIDRSet:
    """The parts of one network, free or taken. Pure; looks for the next free part behind the last one given."""

    def __init__(self, cluster: Network, mask: int) -> None:
        if not cluster.prefixlen <= mask <= cluster.max_prefixlen:
            raise ValueError(f"node CIDR mask size {mask} does not fit into {cluster}")
        self._cluster, self._mask = cluster, mask
        self._size = 1 << (cluster.max_prefixlen - mask)
        self._count = 1 << (mask - cluster.prefixlen)
        self._taken: set[int] = set()
        self._next = 0

    def _positions(self, network: Network) -> range:
        """The parts that ``network`` overlaps."""
        if network.version != self._cluster.version or not network.overlaps(self._cluster):
            return range(0)
        start = max(0, int(network.network_address) - int(self._cluster.network_address))
        end = min(self._count * self._size, start + network.num_addresses)
        return range(start // self._size, -(-end // self._size))

    def occupy(self, network: Network) -> None:
        self._taken.update(self._positions(network))

    def release(self, network: Network) -> None:
        self._taken.difference_update(self._positions(network))

    def allocate(self) -> Network:
        for offset in range(self._count):
            position = (self._next + offset) % self._count
            if position not in self._taken:
                self._taken.add(position)
                self._next = position + 1
                address = int(self._cluster.network_address) + position * self._size
                made: Network = type(self._cluster)((address, self._mask))
                return made
        raise RangeFullError(f"CIDR allocation failed; there are no remaining CIDRs left to allocate in {self._cluster}")


class NodeIPAMController:
    """One worker over nodes: allocation is a decision that only one may make."""

    name = "node-ipam-controller"

    def __init__(self, env: Environment, clusters: Iterable[str], masks: tuple[int, int], services: Iterable[str] = ()) -> None:
        """``masks`` are the sizes for IPv4 and IPv6. Ranges of Services are never given to nodes."""
        self._client = env.client
        self._recorder = env.recorders("cidrAllocator")
        self._sets = []
        for text in clusters:
            network = ipaddress.ip_network(text)
            self._sets.append(CIDRSet(network, masks[0] if network.version == 4 else masks[1]))
        for text in services:
            self._occupy([text])
        self._nodes = env.watch(NODES)
        self._given: set[str] = set()  # uids of nodes whose range is written and has not come back yet
        self._loop = Loop(self.name, self.reconcile, env, workers=1)
        self._nodes.add_handler(on_add=self._added, on_update=lambda old, new: self._added(new), on_delete=self._deleted)

    async def run(self) -> None:
        await self._loop.run()

    def _occupy(self, cidrs: Iterable[str]) -> None:
        for text in cidrs:
            for each in self._sets:
                each.occupy(ipaddress.ip_network(text))

    def _added(self, node: Object) -> None:
        """Ranges that nodes have are taken before ``run`` gives out any: all nodes are heard of first."""
        held = nodes.pod_cidrs(node)
        if held:
            self._occupy(held)
            self._given.discard(uid_of(node))
        else:
            self._loop.add_object(node)

    def _deleted(self, node: Object) -> None:
        self._given.discard(uid_of(node))
        for text in nodes.pod_cidrs(node):
            for each in self._sets:
                each.release(ipaddress.ip_network(text))

    async def reconcile(self, key: str) -> float | None:
        node = self._nodes.lister.get(key)
        if node is None or is_deleting(node) or nodes.pod_cidrs(node) or uid_of(node) in self._given:
            return None
        given: list[tuple[CIDRSet, Network]] = []
        try:
            for each in self._sets:
                given += [(each, each.allocate())]
            texts = [str(network) for _, network in given]
            body = {"metadata": {"uid": uid_of(node)}, "spec": {"podCIDR": texts[0], "podCIDRs": texts}}
            await self._client.patch(NODES, name_of(node), body)
            self._given.add(uid_of(node))
        except Exception as error:
            for each, network in given:
                each.release(network)
            if isinstance(error, StatusError) and await self._has_one(node):
                return None
            if isinstance(error, RangeFullError):
                text = f"Node {key} status is now: CIDRNotAvailable"
                self._recorder.event(node, "Normal", "CIDRNotAvailable", text, "AllocateCIDR")
            raise
        return None

    async def _has_one(self, node: Object) -> bool:
        """Whether the node has got its range from somebody else (its kubelet, a person), which the cache has not shown yet."""
        try:
            held = await self._client.get(NODES, name_of(node))
        except StatusError as error:
            return error.code == 404
        cidrs = nodes.pod_cidrs(held) if uid_of(held) == uid_of(node) else []
        self._occupy(cidrs)
        return bool(cidrs)

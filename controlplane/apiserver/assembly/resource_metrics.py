"""``metrics.k8s.io`` in place: its two resources over the kubelets that the server reaches, where a flag wants them."""

from collections.abc import Mapping, Sequence

import aiohttp

from component.clock import Clock, RealClock
from controlplane.apiserver.assembly.resources import cached_listing_in
from controlplane.apiserver.config import Config
from controlplane.apiserver.endpoints.connect_kubelet import Kubelets
from controlplane.apiserver.registry.store import Store
from controlplane.apiserver.registry.strategy import Strategy
from controlplane.apiserver.resource_metrics.source import Source
from controlplane.apiserver.resource_metrics.stores import NODES, PODS, MetricsStrategy, NodeMetrics, PodMetrics

_MOST = 32 << 20  # bytes that one kubelet may say


def strategies(config: Config) -> list[Strategy]:
    """For discovery: what is served."""
    return [MetricsStrategy(NODES), MetricsStrategy(PODS)] if config.resource_metrics else []


def made(config: Config, stores: Mapping[str, Store], kubelets: Kubelets, clock: Clock | None = None) -> Sequence[Store]:
    """The resources as stores; none where they are not wanted."""
    if not config.resource_metrics:
        return ()
    clock, listing = clock or RealClock(), cached_listing_in(stores)

    async def names() -> list[str]:
        return [node["metadata"]["name"] for node in await listing("nodes", "")]

    async def fetch(name: str) -> str:
        try:
            target = await kubelets.of_node(name)
            async with kubelets.session.get(target.url("metrics", "resource"), ssl=kubelets.context()) as response:
                if response.status != 200:
                    raise OSError(f"{target.authority} answers {response.status}")
                if (response.content_length or 0) > _MOST:
                    raise OSError(f"{target.authority} says too much")
                return await response.text()
        except aiohttp.ClientError as error:
            raise OSError(str(error)) from None

    source = Source(names, fetch, clock)
    return NodeMetrics(source, listing, clock), PodMetrics(source, listing, clock)

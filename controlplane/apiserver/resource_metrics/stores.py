"""``nodes`` and ``pods`` of ``metrics.k8s.io``: stores to the endpoints that read, computed anew at each read.

``assembly`` makes them where ``--enable-resource-metrics`` is set. Names, labels and selectors are those of the measured objects.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from apimachinery import errors
from apimachinery.gvk import GroupVersionKind
from component.clock import Clock
from controlplane.apiserver.kinds.shared.columns import NAME
from controlplane.apiserver.registry.entries import PlainEntry
from controlplane.apiserver.registry.store import Store
from controlplane.apiserver.registry.strategy import Column, Object, ResourceInfo, Strategy
from controlplane.apiserver.registry.traits import extractor
from controlplane.apiserver.resource_metrics.objects import GROUP, VERSION, node_metrics, pod_metrics, totals
from controlplane.apiserver.resource_metrics.samples import Rate
from controlplane.apiserver.resource_metrics.source import Source, Usage
from controlplane.apiserver.storage.interface import Entry, ListOptions, ListResult

NODES = ResourceInfo(GroupVersionKind(GROUP, VERSION, "NodeMetrics"), "nodes", "node", False, verbs=("get", "list"))
PODS = ResourceInfo(GroupVersionKind(GROUP, VERSION, "PodMetrics"), "pods", "pod", True, verbs=("get", "list"))

Measured = Mapping[str, Any]
Listing = Callable[[str, str], Awaitable[list[Object]]]
"""All objects of a resource, in one namespace or in all ("")."""


class MetricsStrategy(Strategy):
    """One of the two kinds."""

    columns = (NAME, Column("cpu", description="Cores in use."), Column("memory", description="Working set."), Column("window"))

    def __init__(self, info: ResourceInfo) -> None:
        self.info = info

    def row(self, obj: Object, now: datetime) -> list[Any]:
        return [obj["metadata"]["name"], *totals(obj), obj["window"]]


class NodeMetrics(Store):
    """Nodes whose kubelets answer."""

    def __init__(self, source: Source, listing: Listing, clock: Clock) -> None:
        self.strategy, self.info = MetricsStrategy(NODES), NODES
        self._source, self._listing, self._clock = source, listing, clock

    async def get(self, namespace: str, name: str, resource_version: str = "") -> Entry:
        return _one(self.info, name, await self._made(namespace))

    async def list(self, namespace: str, options: ListOptions) -> ListResult:
        return _selected(self.strategy, options, await self._made(namespace))

    async def _made(self, namespace: str) -> Sequence[Object]:
        rates, now = (await self._source.usage()).nodes, self._clock.now()
        nodes = await self._listing("nodes", "")
        return [node_metrics(node, rates[name], now) for node in nodes if (name := node["metadata"]["name"]) in rates]


class PodMetrics(Store):
    """Running pods of which every container has been measured."""

    def __init__(self, source: Source, listing: Listing, clock: Clock) -> None:
        self.strategy, self.info = MetricsStrategy(PODS), PODS
        self._source, self._listing, self._clock = source, listing, clock

    async def get(self, namespace: str, name: str, resource_version: str = "") -> Entry:
        return _one(self.info, f"{namespace}/{name}", await self._made(namespace), name)

    async def list(self, namespace: str, options: ListOptions) -> ListResult:
        return _selected(self.strategy, options, await self._made(namespace))

    async def _made(self, namespace: str) -> Sequence[Object]:
        by_pod, now = _by_pod(await self._source.usage()), self._clock.now()
        made = []
        for pod in await self._listing("pods", namespace):
            rates = by_pod.get((pod["metadata"]["namespace"], pod["metadata"]["name"]), {})
            if rates and (pod.get("status") or {}).get("phase") == "Running" and _whole(pod, rates):
                made.append(pod_metrics(pod, rates, now))
        return made


def _by_pod(usage: Usage) -> dict[tuple[str, str], dict[str, Rate]]:
    found: dict[tuple[str, str], dict[str, Rate]] = {}
    for (namespace, pod, container), rate in usage.containers.items():
        found.setdefault((namespace, pod), {})[container] = rate
    return found


def _whole(pod: Measured, rates: Mapping[str, Rate]) -> bool:
    """A part of a pod would be taken for the whole: better to wait for the next round."""
    statuses = pod["status"].get("containerStatuses") or ()
    running = {one["name"] for one in statuses if "running" in (one.get("state") or {})}
    return running <= set(rates)


def _one(info: ResourceInfo, shown: str, made: Sequence[Object], name: str = "") -> Entry:
    found = next((obj for obj in made if obj["metadata"]["name"] == (name or shown)), None)
    if found is None:
        raise errors.not_found(f"{info.gvk.kind.lower()}s.{GROUP}", shown)
    return PlainEntry(shown, 0, found)


def _selected(strategy: Strategy, options: ListOptions, made: Sequence[Object]) -> ListResult:
    traits = extractor(strategy)
    kept = [obj for obj in made if options.matches is None or options.matches(traits(obj))]
    return ListResult([PlainEntry(obj["metadata"]["name"], 0, obj) for obj in kept], 0)

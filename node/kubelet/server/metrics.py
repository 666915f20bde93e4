"""``/metrics``, ``/metrics/resource`` and ``/stats/summary``: numbers about the kubelet, its node and its containers.

Container usage comes from a :class:`StatsSource` (CRI's container stats; see ``node.kubelet.stats``), the node's own from
``/proc``. Called by ``routes.py``.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
from aiohttp import web

from apimachinery import times
from component.clock import Clock
from component.metrics import CONTENT_TYPE, Registry
from node.kubelet.machine import Machine
from node.kubelet.server import cadvisor
from node.kubelet.server.cadvisor import PodTraffic
from node.kubelet.stats.usage import ContainerUsage, NodeUsage, StatsSource, read_node, read_proc
from node.kubelet.stats.volumes import VolumeUsage


class Pages:
    """The three pages as handlers."""

    def __init__(
        self,
        registry: Registry,
        stats: StatsSource | None,
        clock: Clock,
        volumes: VolumeUsage | None = None,
        probes: Registry | None = None,
        machine: Machine | None = None,
        traffic: Callable[[], Iterable[PodTraffic]] = tuple,
    ) -> None:
        """``traffic`` blocks; it is called in a thread."""
        self._registry = registry
        self._probes = probes
        self._machine = machine
        self._traffic = traffic
        self._volumes = volumes
        self._stats = stats
        self._clock = clock

    async def metrics(self, request: web.Request) -> web.Response:
        body = await asyncio.to_thread(self._registry.expose)
        body += self._volumes.metrics() if self._volumes is not None else b""
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    async def probes(self, request: web.Request) -> web.Response:
        body = await asyncio.to_thread(self._probes.expose) if self._probes is not None else b""
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    async def cadvisor(self, request: web.Request) -> web.Response:
        _, containers = await self._read()
        traffic = await asyncio.to_thread(lambda: list(self._traffic()))
        body = cadvisor.page(self._machine or Machine(0, 0, 0), containers, traffic)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    async def resource(self, request: web.Request) -> web.Response:
        node, containers = await self._read()
        return web.Response(body=resource_metrics(node, containers), headers={"Content-Type": CONTENT_TYPE})

    async def summary(self, request: web.Request) -> web.Response:
        node, containers = await self._read()
        found = summary(node, containers, self._clock.now())
        for pod in found["pods"]:
            if self._volumes is not None and (listed := self._volumes.of_pod(pod["podRef"]["uid"])):
                pod["volume"] = listed
        return web.Response(body=orjson.dumps(found), content_type="application/json")

    async def _read(self) -> tuple[NodeUsage, Sequence[ContainerUsage]]:
        if self._stats is None:
            raise web.HTTPServiceUnavailable(text="this kubelet has no source of statistics")
        stat, meminfo = await asyncio.to_thread(read_proc)
        return read_node(self._stats.node_name, stat, meminfo), await self._stats.containers()


def resource_metrics(node: NodeUsage, containers: Sequence[ContainerUsage]) -> bytes:
    """Upstream's resource metrics, which metrics-server scrapes. Pure."""
    lines: dict[str, list[str]] = defaultdict(list)
    pods: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for item in containers:
        labels = f'container="{item.name}",namespace="{item.namespace}",pod="{item.pod}"'
        when = item.timestamp_ns // 10**6
        lines["container_cpu_usage_seconds_total"].append(f"{{{labels}}} {item.cpu_nanoseconds / 1e9:.9g} {when}")
        lines["container_memory_working_set_bytes"].append(f"{{{labels}}} {item.memory_working_set} {when}")
        if item.started_at:
            lines["container_start_time_seconds"].append(f"{{{labels}}} {item.started_at.timestamp():.9f}")
        pod = pods[(item.namespace, item.pod)]
        pod[0] += item.cpu_nanoseconds
        pod[1] += item.memory_working_set
        pod[2] = max(pod[2], when)
    lines["node_cpu_usage_seconds_total"].append(f" {node.cpu_nanoseconds / 1e9:.9g}")
    lines["node_memory_working_set_bytes"].append(f" {node.memory_working_set}")
    for (namespace, name), (cpu, memory, when) in pods.items():
        labels = f'namespace="{namespace}",pod="{name}"'
        lines["pod_cpu_usage_seconds_total"].append(f"{{{labels}}} {cpu / 1e9:.9g} {when}")
        lines["pod_memory_working_set_bytes"].append(f"{{{labels}}} {memory} {when}")
    lines["resource_scrape_error"].append(" 0")
    out = []
    for name in sorted(lines):
        kind = "counter" if name.endswith("_total") else "gauge"
        out.append(f"# TYPE {name} {kind}")
        out += [name + line for line in lines[name]]
    return ("\n".join(out) + "\n").encode()


def summary(node: NodeUsage, containers: Sequence[ContainerUsage], now: datetime) -> dict[str, Any]:
    """``stats/v1alpha1`` Summary, as far as CRI tells. Pure."""
    pods: dict[str, dict[str, Any]] = {}
    for item in containers:
        reference = {"name": item.pod, "namespace": item.namespace, "uid": item.pod_uid}
        pod = pods.setdefault(item.pod_uid, {"podRef": reference, "containers": []})
        when = times.format_time(datetime.fromtimestamp(item.timestamp_ns / 1e9, UTC))
        cpu = {"time": when, "usageNanoCores": item.cpu_nanocores, "usageCoreNanoSeconds": item.cpu_nanoseconds}
        memory = {
            "time": when,
            "usageBytes": item.memory_usage,
            "workingSetBytes": item.memory_working_set,
            "rssBytes": item.memory_rss,
        }
        rootfs = {"time": when, "usedBytes": item.rootfs_used, "inodesUsed": item.rootfs_inodes}
        entry: dict[str, Any] = {"name": item.name, "cpu": cpu, "memory": memory, "rootfs": rootfs}
        if item.started_at:
            entry["startTime"] = times.format_time(item.started_at)
        pod["containers"].append(entry)
    for pod in pods.values():
        for part, keys in (("cpu", ("usageNanoCores", "usageCoreNanoSeconds")), ("memory", ("usageBytes", "workingSetBytes"))):
            total = {key: sum(entry[part][key] for entry in pod["containers"]) for key in keys}
            pod[part] = {"time": pod["containers"][0][part]["time"], **total}
    stamp = times.format_time(now)
    about_node = {
        "nodeName": node.name,
        "startTime": times.format_time(node.boot),
        "cpu": {"time": stamp, "usageCoreNanoSeconds": node.cpu_nanoseconds},
        "memory": {"time": stamp, "availableBytes": node.memory_available, "workingSetBytes": node.memory_working_set},
    }
    return {"node": about_node, "pods": list(pods.values())}

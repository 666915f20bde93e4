"""NodeMetrics and PodMetrics from rates. Pure; ``stores`` calls it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from apimachinery import quantity
from apimachinery.times import format_time
from controlplane.apiserver.resource_metrics.samples import Rate

GROUP, VERSION = "metrics.k8s.io", "v1beta1"

Object = dict[str, Any]


def node_metrics(node: Mapping[str, Any], rate: Rate, now: datetime) -> Object:
    """The usage of a node under the node's own name and labels."""
    return {**_head("NodeMetrics", node, now), **_times(rate), "usage": usage(rate)}


def pod_metrics(pod: Mapping[str, Any], rates: Mapping[str, Rate], now: datetime) -> Object:
    """The usage of a pod's containers, by name; the oldest of them dates it."""
    oldest = min(rates.values(), key=lambda rate: rate.at)
    listed = [{"name": name, "usage": usage(rate)} for name, rate in rates.items()]
    return {**_head("PodMetrics", pod, now), **_times(oldest), "containers": listed}


def usage(rate: Rate) -> dict[str, str]:
    """As the metrics server writes it: billionths of a core, kibibytes."""
    return {"cpu": f"{rate.cpu}n" if rate.cpu else "0", "memory": f"{rate.memory // 1024}Ki"}


def _head(kind: str, of: Mapping[str, Any], now: datetime) -> Object:
    metadata: Object = {"name": of["metadata"]["name"]}
    if namespace := of["metadata"].get("namespace"):
        metadata["namespace"] = namespace
    metadata["creationTimestamp"] = format_time(now)
    if labels := of["metadata"].get("labels"):
        metadata["labels"] = dict(labels)
    return {"kind": kind, "apiVersion": f"{GROUP}/{VERSION}", "metadata": metadata}


def _times(rate: Rate) -> Object:
    return {"timestamp": format_time(datetime.fromtimestamp(rate.at, UTC)), "window": f"{rate.window:.3f}s"}


def totals(obj: Mapping[str, Any]) -> tuple[str, str]:
    """(cpu, memory) of one object as a table shows them."""
    used = [obj["usage"]] if "usage" in obj else [one["usage"] for one in obj["containers"]]
    cpu = sum(quantity.parse(one["cpu"]).nanos for one in used)
    memory = sum(quantity.parse(one["memory"]).value() for one in used)
    return f"{cpu}n", f"{memory // 1024}Ki"

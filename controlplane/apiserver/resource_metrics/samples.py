"""What a kubelet's ``/metrics/resource`` says, and the rates between two of its answers. Pure; ``source`` calls it.

Series and labels are upstream's (KEP-727). A rate needs two points: a container that was started in between has none yet.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

_CPU, _MEMORY = "container_cpu_usage_seconds_total", "container_memory_working_set_bytes"
_NODE_CPU, _NODE_MEMORY = "node_cpu_usage_seconds_total", "node_memory_working_set_bytes"

Place = tuple[str, str, str]
"""(namespace, pod, container)"""


@dataclass(frozen=True, slots=True)
class Point:
    """``at``: seconds since 1970; ``cpu``: seconds used so far; ``memory``: working set in bytes."""

    at: float
    cpu: float
    memory: int


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of one kubelet. ``node`` is None where it said nothing of itself."""

    node: Point | None = None
    containers: Mapping[Place, Point] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rate:
    """``cpu`` in billionths of a core, ``memory`` in bytes, over the ``window`` seconds before ``at``."""

    at: float
    window: float
    cpu: int
    memory: int


def parse(text: str, received: float) -> Answer:
    """``received`` dates what bears no time stamp. Raises ValueError for what is not the text format."""
    cpu: dict[Place, tuple[float, float]] = {}
    memory: dict[Place, int] = {}
    node: dict[str, tuple[float, float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            at = received if sample.timestamp is None else float(sample.timestamp)
            if sample.name in (_NODE_CPU, _NODE_MEMORY):
                node[sample.name] = (at, sample.value)
            elif sample.name in (_CPU, _MEMORY):
                labels = sample.labels
                place = labels.get("namespace", ""), labels.get("pod", ""), labels.get("container", "")
                if sample.name == _CPU:
                    cpu[place] = (at, sample.value)
                else:
                    memory[place] = int(sample.value)
    own = None
    if _NODE_CPU in node and _NODE_MEMORY in node:
        own = Point(*node[_NODE_CPU], int(node[_NODE_MEMORY][1]))
    return Answer(own, {place: Point(*cpu[place], memory[place]) for place in cpu if place in memory})


def rate(before: Point | None, now: Point | None) -> Rate | None:
    """None without two points, or when the container was started anew between them: its counter began again."""
    if before is None or now is None or now.at <= before.at or now.cpu < before.cpu:
        return None
    window = now.at - before.at
    return Rate(now.at, window, round((now.cpu - before.cpu) / window * 1e9), now.memory)


def containers(before: Answer, now: Answer) -> Iterator[tuple[Place, Rate]]:
    """Every container that both know."""
    for place, point in now.containers.items():
        found = rate(before.containers.get(place), point)
        if found is not None:
            yield place, found

"""What a pod asks of a node, as integers: CPU in thousandths, everything else in its own unit (bytes, counts).

The scheduler's fit and the kubelet's admission call the same functions, so they cannot disagree. Parsed quantities are
cached by their text: a cluster uses few distinct ones.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from apimachinery import quantity
from apimachinery.objects.pods import is_sidecar

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

# What the scheduler counts for a container that requests nothing when it spreads load (never when it fits).
DEFAULT_MILLI_CPU = 100
DEFAULT_MEMORY = 200 * 1024 * 1024

Resources = dict[str, int]


@lru_cache(maxsize=4096)
def amount(resource: str, text: str | int | float) -> int:
    """One quantity as an integer, rounded up: thousandths for CPU, whole units for the rest."""
    parsed = quantity.parse(str(text))
    return parsed.milli() if resource == CPU else parsed.value()


def amounts(listed: Mapping[str, Any] | None) -> Resources:
    """A ResourceList as integers."""
    return {name: amount(name, text) for name, text in (listed or {}).items()}


def add(total: Resources, more: Mapping[str, int]) -> None:
    for name, number in more.items():
        total[name] = total.get(name, 0) + number


def raise_to(total: Resources, other: Mapping[str, int]) -> None:
    """Component-wise maximum, in place."""
    for name, number in other.items():
        if number > total.get(name, 0):
            total[name] = number


def container_requests(container: Mapping[str, Any]) -> Resources:
    """The API server has already copied limits to requests where only limits were given."""
    return amounts((container.get("resources") or {}).get("requests"))


def container_limits(container: Mapping[str, Any]) -> Resources:
    return amounts((container.get("resources") or {}).get("limits"))


def pod_requests(pod: Mapping[str, Any]) -> Resources:
    """Effective requests: the larger of the ordinary containers with all sidecars, and of each moment of initialisation.

    Pod-level requests replace the sum for the resources they name; overhead comes on top.
    """
    return _effective(pod, "requests")


def pod_limits(pod: Mapping[str, Any]) -> Resources:
    """Effective limits, summed alike."""
    return _effective(pod, "limits")


def _effective(pod: Mapping[str, Any], field: str) -> Resources:
    spec = pod.get("spec") or {}
    total: Resources = {}
    for container in spec.get("containers") or ():
        add(total, amounts((container.get("resources") or {}).get(field)))
    sidecars: Resources = {}
    highest: Resources = {}
    for container in spec.get("initContainers") or ():
        wanted = amounts((container.get("resources") or {}).get(field))
        if is_sidecar(container):
            add(total, wanted)
            add(sidecars, wanted)
            raise_to(highest, sidecars)
        else:
            add(wanted, sidecars)  # sidecars started earlier run beside this one
            raise_to(highest, wanted)
    raise_to(total, highest)
    total.update(amounts((spec.get("resources") or {}).get(field)))
    overhead = amounts(spec.get("overhead"))
    if field == "requests":
        add(total, overhead)
    else:  # overhead limits nothing that had no limit
        add(total, {name: number for name, number in overhead.items() if name in total})
    return total


def nonzero_requests(pod: Mapping[str, Any]) -> tuple[int, int]:
    """(milli-CPU, bytes of memory) for scoring, where a container that requests nothing still counts for something."""
    spec = pod.get("spec") or {}
    requested = pod_requests(pod)
    level = (spec.get("resources") or {}).get("requests") or {}
    cpu, memory = requested.get(CPU, 0), requested.get(MEMORY, 0)
    for container in spec.get("containers") or ():
        listed = (container.get("resources") or {}).get("requests") or {}
        if CPU not in listed and CPU not in level:
            cpu += DEFAULT_MILLI_CPU
        if MEMORY not in listed and MEMORY not in level:
            memory += DEFAULT_MEMORY
    return cpu, memory


def allocatable(node: Mapping[str, Any]) -> Resources:
    """What a node offers to pods: ``status.allocatable``, or its capacity where the kubelet reports none."""
    status = node.get("status") or {}
    return amounts(status.get("allocatable") or status.get("capacity"))

"""Quality of service: who is evicted last. Asked by the API server (status), the kubelet (cgroups) and eviction."""

from collections.abc import Mapping
from typing import Any

from apimachinery.objects.requests import CPU, MEMORY, amount

GUARANTEED = "Guaranteed"
BURSTABLE = "Burstable"
BEST_EFFORT = "BestEffort"

_COUNTED = (CPU, MEMORY)


def qos_class(pod: Mapping[str, Any]) -> str:
    """``status.qosClass`` where it is set (it never changes), else computed from the spec."""
    return str((pod.get("status") or {}).get("qosClass") or "") or compute(pod)


def compute(pod: Mapping[str, Any]) -> str:
    """Guaranteed: every container limits CPU and memory and requests just that. BestEffort: none asks for either."""
    spec = pod.get("spec") or {}
    if any((spec.get("resources") or {}).get(field) for field in ("requests", "limits")):
        listed = [spec["resources"]]
    else:
        containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
        listed = [each.get("resources") or {} for each in containers]
    if not any(_positive(each, field) for each in listed for field in ("requests", "limits")):
        return BEST_EFFORT
    return GUARANTEED if all(_is_guaranteed(each) for each in listed) else BURSTABLE


def _positive(resources: Mapping[str, Any], field: str) -> dict[str, int]:
    counted = {name: amount(name, text) for name, text in (resources.get(field) or {}).items() if name in _COUNTED}
    return {name: number for name, number in counted.items() if number > 0}


def _is_guaranteed(resources: Mapping[str, Any]) -> bool:
    limits = _positive(resources, "limits")
    requests = _positive(resources, "requests")
    return set(limits) == set(_COUNTED) and all(requests.get(name, limits[name]) == limits[name] for name in limits)

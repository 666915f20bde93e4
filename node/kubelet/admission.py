"""Whether this node takes a pod that was bound to it. Pure: the scheduler normally made sure, but static pods, races and
hand-made bindings come here unchecked. Called by the pod manager for every new pod."""

from collections.abc import Iterable, Mapping
from typing import Any

from apimachinery.objects import pods
from apimachinery.objects.requests import PODS, add, amount, pod_requests

Pod = Mapping[str, Any]


def refuse(pod: Pod, others: Iterable[Pod], allocatable: Mapping[str, str]) -> tuple[str, str] | None:
    """(reason, message) of the Failed status, or None to take it. ``others`` are the pods this node already has taken."""
    used: dict[str, int] = {}
    count = 0
    for other in others:
        if not pods.is_terminal(other):
            add(used, pod_requests(other))
            count += 1
    limit = amount(PODS, allocatable.get(PODS, "110"))
    if count + 1 > limit:
        return "OutOfpods", _message(PODS, 1, count, limit)
    for name, wanted in pod_requests(pod).items():
        if not wanted:
            continue
        available = amount(name, allocatable.get(name, "0"))
        if used.get(name, 0) + wanted > available:
            return f"OutOf{name}", _message(name, wanted, used.get(name, 0), available)
    return None


def _message(name: str, wanted: int, used: int, available: int) -> str:
    return f"Pod was rejected: Node didn't have enough resource: {name}, requested: {wanted}, used: {used}, capacity: {available}"

"""Pure rules of a set of identical pods: how many to make, which to remove, what to report.

Used by replicaset and replicationcontroller, which differ only in their API group.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apimachinery.meta import (
    Object,
    clone,
    controller_of,
    creation_time,
    generation,
    labels_of,
    remove_condition,
    set_condition,
    uid_of,
)
from apimachinery.objects import pods
from controlplane.controllers.lib.pod_control import BURST

_PHASE_RANK = {"Pending": 0, "Unknown": 1, "Running": 2}


@dataclass(frozen=True, slots=True)
class Plan:
    """``create`` pods, or delete those listed; never both."""

    create: int = 0
    delete: Sequence[Object] = ()


def plan(owner: Mapping[str, Any], active: Sequence[Object], related: Callable[[], Iterable[Object]], now: datetime) -> Plan:
    """``related`` lists the active pods of all sets of the same grand-owner (a Deployment): it is asked only to delete."""
    difference = len(active) - int((owner.get("spec") or {}).get("replicas", 1))
    if difference < 0:
        return Plan(create=min(-difference, BURST))
    if difference > 0:
        return Plan(delete=choose_victims(active, related(), min(difference, BURST), now))
    return Plan()


def choose_victims(active: Sequence[Object], related: Iterable[Object], count: int, now: datetime) -> list[Object]:
    """The ``count`` pods whose loss costs least."""
    if count >= len(active):
        return list(active)
    crowd: dict[str, int] = {}
    for pod in related:
        if pods.is_active(pod):
            crowd[pods.node_name(pod)] = crowd.get(pods.node_name(pod), 0) + 1
    return sorted(active, key=lambda pod: deletion_rank(pod, crowd.get(pods.node_name(pod), 0), now))[:count]


def deletion_rank(pod: Object, crowd: int, now: datetime) -> tuple[Any, ...]:
    """Upstream's order, first to go first: unassigned, pending, not ready, cheap, crowded, ready for less time, restarted, young.

    Ages compare by their power of two, so that among pods of similar age the choice is arbitrary (by uid) and not
    always the newest zone's.
    """
    ready = pods.ready_since(pod)
    return (
        bool(pods.node_name(pod)),
        _PHASE_RANK.get(pods.phase(pod), 1),
        pods.is_ready(pod),
        pods.deletion_cost(pod),
        -crowd,
        _age_rank(ready, now) if pods.is_ready(pod) else 0,
        -pods.restart_count(pod),
        _age_rank(creation_time(pod), now),
        uid_of(pod),
    )


def _age_rank(since: datetime | None, now: datetime) -> int:
    """Unknown counts as youngest."""
    if since is None:
        return -1
    seconds = (now - since).total_seconds()
    return 0 if seconds < 1 else 1 + int(math.log2(seconds))


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the last reconciliation could not reach the wanted number."""

    reason: str
    message: str


def next_status(
    owner: Mapping[str, Any], active: Sequence[Object], terminating: int | None, failure: Failure | None, now: datetime
) -> Object:
    """The whole new ``status``; the caller writes it only if it differs. ``terminating`` None leaves that field out."""
    spec = owner.get("spec") or {}
    min_ready = int(spec.get("minReadySeconds") or 0)
    template_labels = (((spec.get("template") or {}).get("metadata")) or {}).get("labels") or {}
    labelled = sum(all(labels_of(pod).get(key) == value for key, value in template_labels.items()) for pod in active)
    counts = {
        "fullyLabeledReplicas": labelled,
        "readyReplicas": sum(pods.is_ready(pod) for pod in active),
        "availableReplicas": sum(pods.is_available(pod, min_ready, now) for pod in active),
    }
    status: Object = {"replicas": len(active), **{field: count for field, count in counts.items() if count}}
    if terminating is not None:
        status["terminatingReplicas"] = terminating
    status["observedGeneration"] = generation(owner)
    shell: Object = {"status": {"conditions": clone({"c": (owner.get("status") or {}).get("conditions") or []})["c"]}}
    if failure is None:
        remove_condition(shell, "ReplicaFailure")
    else:
        set_condition(shell, "ReplicaFailure", "True", now=now, reason=failure.reason, message=failure.message)
    if shell["status"]["conditions"]:
        status["conditions"] = shell["status"]["conditions"]
    return status


def same_status(held: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> bool:
    """Equal up to fields that are zero or empty on one side and absent on the other."""
    return _significant(held or {}) == _significant(wanted)


def _significant(status: Mapping[str, Any]) -> dict[str, Any]:
    return {field: value for field, value in status.items() if value not in (0, None, "", [])}


def next_look(owner: Mapping[str, Any], active: Sequence[Object], now: datetime) -> float | None:
    """Seconds until the next ready pod becomes available by mere waiting; None when none will."""
    min_ready = int((owner.get("spec") or {}).get("minReadySeconds") or 0)
    if min_ready <= 0:
        return None
    moments = [moment for pod in active if (moment := pods.available_at(pod, min_ready)) is not None and moment > now]
    return max(0.0, (min(moments) - now).total_seconds()) + 0.05 if moments else None


def grand_owner(owner: Mapping[str, Any]) -> str:
    """The uid of the Deployment behind a ReplicaSet, or an empty string."""
    return str((controller_of(owner) or {}).get("uid") or "")

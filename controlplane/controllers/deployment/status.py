"""A Deployment's ``status``: counts and the conditions that ``kubectl rollout status`` waits for. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from apimachinery.meta import Object, clone, generation, get_condition, name_of, remove_condition
from apimachinery.times import format_time, parse_time
from controlplane.controllers.deployment.facts import (
    Deployment,
    is_paused,
    max_unavailable,
    progress_deadline,
    total,
    total_reported,
    wanted,
)

PROGRESSING = "Progressing"
AVAILABLE = "Available"
REPLICA_FAILURE = "ReplicaFailure"
COMPLETE_REASON = "NewReplicaSetAvailable"
TIMED_OUT_REASON = "ProgressDeadlineExceeded"


def set_condition(holder: Object, kind: str, status: str, reason: str, message: str, now: datetime) -> None:
    """Upstream's rule for Deployments: the same status and reason change nothing, not even the message."""
    held = get_condition(holder, kind)
    if held is not None and (held["status"], held.get("reason")) == (status, reason):
        return
    moved = held is None or held["status"] != status
    stamp = format_time(now)
    entry = {
        "type": kind,
        "status": status,
        "lastUpdateTime": stamp,
        "lastTransitionTime": stamp if moved or held is None else held["lastTransitionTime"],
        "reason": reason,
        "message": message,
    }
    remove_condition(holder, kind)
    holder.setdefault("status", {}).setdefault("conditions", []).append(entry)


def counts(deployment: Deployment, new: Object | None, sets: Sequence[Object], now: datetime) -> Object:
    """``{"status": ...}`` with fresh counts and the Available condition; other conditions as they were."""
    held = deployment.get("status") or {}
    available = total_reported(sets, "availableReplicas")
    news = [new] if new is not None else []
    numbers = {
        "replicas": total_reported(sets, "replicas"),
        "updatedReplicas": total_reported(news, "replicas"),
        "readyReplicas": total_reported(sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, total(sets) - available),
    }
    status: Object = {"observedGeneration": generation(deployment)}
    status.update({field: number for field, number in numbers.items() if number})
    status["terminatingReplicas"] = total_reported(sets, "terminatingReplicas")
    if held.get("collisionCount") is not None:
        status["collisionCount"] = held["collisionCount"]
    status["conditions"] = clone({"c": held.get("conditions") or []})["c"]
    holder = {"status": status}
    if available >= wanted(deployment) - max_unavailable(deployment):
        text = "Deployment has minimum availability."
        set_condition(holder, AVAILABLE, "True", "MinimumReplicasAvailable", text, now)
    else:
        text = "Deployment does not have minimum availability."
        set_condition(holder, AVAILABLE, "False", "MinimumReplicasUnavailable", text, now)
    return holder


def is_complete(deployment: Deployment, status: Mapping[str, Any]) -> bool:
    """Everything wanted runs the new template and is available, and nothing old is left."""
    size = wanted(deployment)
    return all(int(status.get(field) or 0) == size for field in ("updatedReplicas", "replicas", "availableReplicas")) and int(
        status.get("observedGeneration") or 0
    ) >= generation(deployment)


def is_progressing(deployment: Deployment, status: Mapping[str, Any]) -> bool:
    """More new, ready or available pods, or fewer old ones, than the stored status says."""

    def numbers(of: Mapping[str, Any]) -> tuple[int, int, int, int]:
        updated = int(of.get("updatedReplicas") or 0)
        old = int(of.get("replicas") or 0) - updated
        return updated, -old, int(of.get("readyReplicas") or 0), int(of.get("availableReplicas") or 0)

    before, after = numbers(deployment.get("status") or {}), numbers(status)
    return any(new > old for old, new in zip(before, after, strict=True))


def is_timed_out(deployment: Deployment, holder: Object, now: datetime) -> bool:
    condition, deadline = get_condition(holder, PROGRESSING), progress_deadline(deployment)
    if deadline is None or condition is None or condition.get("reason") == COMPLETE_REASON:
        return False
    if condition.get("reason") == TIMED_OUT_REASON:
        return True
    return _updated(condition) + timedelta(seconds=deadline) < now


def _updated(condition: Mapping[str, Any]) -> datetime:
    return parse_time(condition.get("lastUpdateTime") or condition["lastTransitionTime"])


def progressed(deployment: Deployment, new: Object | None, sets: Sequence[Object], now: datetime) -> Object:
    """The whole new status of a rollout: counts, then Progressing and ReplicaFailure."""
    holder = counts(deployment, new, sets, now)
    status = holder["status"]
    held = get_condition(deployment, PROGRESSING)
    if progress_deadline(deployment) is None:
        remove_condition(holder, PROGRESSING)
    elif not _was_complete(status, held):
        _judge_progress(deployment, holder, held, new, now)
    failure = _replica_failure(new, sets)
    if failure is not None:
        set_condition(holder, REPLICA_FAILURE, failure["status"], failure.get("reason", ""), failure.get("message", ""), now)
    else:
        remove_condition(holder, REPLICA_FAILURE)
    return status  # type: ignore[no-any-return]


def _was_complete(status: Mapping[str, Any], held: Mapping[str, Any] | None) -> bool:
    """A finished rollout stays finished while pods come and go."""
    same = int(status.get("replicas") or 0) == int(status.get("updatedReplicas") or 0)
    return same and held is not None and held.get("reason") == COMPLETE_REASON


def _judge_progress(
    deployment: Deployment, holder: Object, held: Mapping[str, Any] | None, new: Object | None, now: datetime
) -> None:
    who = f'ReplicaSet "{name_of(new)}"' if new is not None else f'Deployment "{name_of(deployment)}"'
    if is_complete(deployment, holder["status"]):
        set_condition(holder, PROGRESSING, "True", COMPLETE_REASON, f"{who} has successfully progressed.", now)
    elif is_progressing(deployment, holder["status"]):
        # Removed first: progress renews lastUpdateTime, from which the deadline counts.
        remove_condition(holder, PROGRESSING)
        set_condition(holder, PROGRESSING, "True", "ReplicaSetUpdated", f"{who} is progressing.", now)
        if held is not None and held["status"] == "True":
            entry = get_condition(holder, PROGRESSING)
            assert entry is not None
            entry["lastTransitionTime"] = held["lastTransitionTime"]
    elif is_timed_out(deployment, holder, now):
        set_condition(holder, PROGRESSING, "False", TIMED_OUT_REASON, f"{who} has timed out progressing.", now)


def _replica_failure(new: Object | None, sets: Sequence[Object]) -> Mapping[str, Any] | None:
    """The new set's failure, else any other's."""
    for each in ([new] if new is not None else []) + list(sets):
        condition = get_condition(each, REPLICA_FAILURE)
        if condition is not None:
            return condition
    return None


def pause_condition(deployment: Deployment) -> tuple[str, str] | None:
    """(reason, message) of an Unknown Progressing condition to write because pausing began or ended; else None."""
    if progress_deadline(deployment) is None:
        return None
    condition = get_condition(deployment, PROGRESSING)
    reason = (condition or {}).get("reason")
    if reason == TIMED_OUT_REASON:
        return None
    if is_paused(deployment) and reason != "DeploymentPaused":
        return "DeploymentPaused", "Deployment is paused"
    if not is_paused(deployment) and reason == "DeploymentPaused":
        return "DeploymentResumed", "Deployment is resumed"
    return None


def next_look(deployment: Deployment, status: Object, now: datetime) -> float | None:
    """Seconds until the progress deadline must be judged again; None when nothing is pending."""
    condition, deadline = get_condition({"status": status}, PROGRESSING), progress_deadline(deployment)
    if deadline is None or condition is None or is_complete(deployment, status):
        return None
    if condition.get("reason") in (TIMED_OUT_REASON, COMPLETE_REASON):
        return None
    remaining = (_updated(condition) + timedelta(seconds=deadline) - now).total_seconds()
    return max(remaining, 0) + 1

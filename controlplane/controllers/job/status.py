"""A Job's ``status`` from its tally. Pure."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from apimachinery.meta import Object, clone, condition_status, set_condition
from apimachinery.objects import pods
from apimachinery.times import format_time
from controlplane.controllers.job import indexes
from controlplane.controllers.job.plan import Tally, Verdict, is_indexed, is_suspended


def next_status(job: Mapping[str, Any], found: Tally, over: Verdict | None, now: datetime) -> Object:
    """The whole new status. The last condition waits until every pod is counted and gone."""
    holder: Object = {"status": clone(dict(job.get("status") or {}))}
    status = holder["status"]
    if not is_suspended(job) and not status.get("startTime"):
        status["startTime"] = format_time(now)
    _set_counts(status, found)
    if is_indexed(job):
        status["completedIndexes"] = indexes.show(found.completed)
        if not status["completedIndexes"]:
            del status["completedIndexes"]
    _note_suspension(job, holder, now)
    if over is not None:
        _note_end(holder, found, over, now)
    return status  # type: ignore[no-any-return]


def _set_counts(status: Object, found: Tally) -> None:
    counts = {
        "active": len(found.active),
        "succeeded": found.settled_succeeded,
        "failed": found.settled_failed,
    }
    for name, count in counts.items():
        if count:
            status[name] = count
        else:
            status.pop(name, None)
    status["ready"] = sum(pods.is_ready(pod) for pod in found.active)
    status["terminating"] = found.terminating
    waiting = {"succeeded": found.uncounted_succeeded, "failed": found.uncounted_failed}
    status["uncountedTerminatedPods"] = {name: uids for name, uids in waiting.items() if uids}


def _note_suspension(job: Mapping[str, Any], holder: Object, now: datetime) -> None:
    held = condition_status(holder, "Suspended")
    if is_suspended(job):
        _set(holder, "Suspended", "JobSuspended", "Job suspended", now)
        holder["status"].pop("startTime", None)
    elif held == "True":
        set_condition(
            holder,
            "Suspended",
            "False",
            now=now,
            reason="JobResumed",
            message="Job resumed",
            stamps={"lastProbeTime": format_time(now)},
        )
        holder["status"]["startTime"] = format_time(now)


def _set(holder: Object, kind: str, reason: str, message: str, now: datetime) -> bool:
    stamps = {"lastProbeTime": format_time(now)}
    return set_condition(holder, kind, "True", now=now, reason=reason, message=message, stamps=stamps)


def _note_end(holder: Object, found: Tally, over: Verdict, now: datetime) -> None:
    early = "SuccessCriteriaMet" if over.kind == "Complete" else "FailureTarget"
    _set(holder, early, over.reason, over.message, now)
    if found.active or found.terminating or found.uncounted_succeeded or found.uncounted_failed:
        return
    if _set(holder, over.kind, over.reason, over.message, now) and over.kind == "Complete":
        holder["status"]["completionTime"] = format_time(now)

"""What a Job's pods amount to, when it is over, and what to start or stop. Pure.

A finished pod is counted exactly once although the controller may die at any point: its uid goes into
``status.uncountedTerminatedPods``; then it loses its finalizer; then the uid leaves the list and the count grows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from apimachinery.meta import Object, clone, condition_status, has_finalizer, is_deleting, name_of, owner_reference, uid_of
from apimachinery.objects import pods
from apimachinery.times import parse_time
from controlplane.controllers.job import indexes
from controlplane.controllers.lib.pod_control import from_template

FINALIZER = "batch.kubernetes.io/job-tracking"
_FIRST_BACKOFF, _LONGEST_BACKOFF = 10.0, 600.0
_UNLIMITED = 2**31 - 1


def is_indexed(job: Mapping[str, Any]) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def is_suspended(job: Mapping[str, Any]) -> bool:
    return bool(job["spec"].get("suspend"))


def is_finished(job: Mapping[str, Any]) -> bool:
    return condition_status(job, "Complete") == "True" or condition_status(job, "Failed") == "True"


def _replaces_only_failed(job: Mapping[str, Any]) -> bool:
    return bool(job["spec"].get("podReplacementPolicy") == "Failed")


def has_failed(job: Mapping[str, Any], pod: Object) -> bool:
    """Deleted pods count as failed at once, unless the Job replaces only those that have really failed."""
    if pods.phase(pod) == "Failed":
        return True
    return not _replaces_only_failed(job) and is_deleting(pod) and pods.phase(pod) != "Succeeded"


@dataclass(slots=True)
class Tally:
    """A Job's pods by what they count for. ``succeeded`` and ``failed`` are totals over the Job's whole life."""

    active: list[Object] = field(default_factory=list)
    terminating: int = 0
    uncounted_succeeded: list[str] = field(default_factory=list)
    uncounted_failed: list[str] = field(default_factory=list)
    succeeded: int = 0
    failed: int = 0
    completed: set[int] = field(default_factory=set)
    to_release: list[Object] = field(default_factory=list)
    """Finished pods that are in the lists and still hold their finalizer."""
    settled_succeeded: int = 0
    settled_failed: int = 0


def tally(job: Mapping[str, Any], mine: Sequence[Object]) -> Tally:
    status = job.get("status") or {}
    held = status.get("uncountedTerminatedPods") or {}
    by_uid = {uid_of(pod): pod for pod in mine}
    found = Tally(settled_succeeded=int(status.get("succeeded") or 0), settled_failed=int(status.get("failed") or 0))
    found.completed = indexes.parse(status.get("completedIndexes") or "")
    for uid in held.get("succeeded") or ():
        _settle(found, by_uid.get(uid), uid, found.uncounted_succeeded, succeeded=True)
    for uid in held.get("failed") or ():
        _settle(found, by_uid.get(uid), uid, found.uncounted_failed, succeeded=False)
    listed = {*(held.get("succeeded") or ()), *(held.get("failed") or ())}
    for pod in mine:
        _count(job, found, pod, listed)
    found.succeeded = found.settled_succeeded + len(found.uncounted_succeeded)
    if is_indexed(job):
        found.succeeded = len(found.completed)
    found.failed = found.settled_failed + len(found.uncounted_failed)
    return found


def _settle(found: Tally, pod: Object | None, uid: str, waiting: list[str], *, succeeded: bool) -> None:
    """A listed pod without its finalizer moves from the list into the count."""
    if pod is not None and has_finalizer(pod, FINALIZER):
        waiting.append(uid)
    elif succeeded:
        found.settled_succeeded += 1
    else:
        found.settled_failed += 1


def _count(job: Mapping[str, Any], found: Tally, pod: Object, listed: set[str]) -> None:
    tracked = has_finalizer(pod, FINALIZER)
    if pods.phase(pod) == "Succeeded":
        index = indexes.of_pod(pod)
        if index >= 0:
            found.completed.add(index)
        if tracked and uid_of(pod) not in listed:
            found.uncounted_succeeded.append(uid_of(pod))
    elif has_failed(job, pod):
        if tracked and uid_of(pod) not in listed:
            found.uncounted_failed.append(uid_of(pod))
        found.terminating += not pods.is_terminal(pod)
    elif is_deleting(pod):
        found.terminating += 1
    else:
        found.active.append(pod)
    if tracked and (pods.phase(pod) == "Succeeded" or has_failed(job, pod)):
        found.to_release.append(pod)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a Job ends. ``kind`` is ``Complete`` or ``Failed``."""

    kind: str
    reason: str
    message: str


def verdict(job: Mapping[str, Any], found: Tally, now: datetime) -> Verdict | None:
    """Whether the Job is over, and how; None while it goes on."""
    for kind, early in (("Complete", "SuccessCriteriaMet"), ("Failed", "FailureTarget")):
        for condition in (job.get("status") or {}).get("conditions") or ():
            if condition.get("type") == early and condition.get("status") == "True":
                return Verdict(kind, condition.get("reason", ""), condition.get("message", ""))
    spec = job["spec"]
    completions = spec.get("completions")
    if completions is None and found.succeeded and not found.active:
        return Verdict("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
    if completions is not None and found.succeeded >= completions:
        return Verdict("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
    limit = int(spec["backoffLimit"]) if spec.get("backoffLimit") is not None else 6
    if found.failed > limit or _restarts_beyond(spec, found, limit):
        return Verdict("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    left = deadline_left(job, now)
    if left is not None and left <= 0:
        return Verdict("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
    return None


def _restarts_beyond(spec: Mapping[str, Any], found: Tally, limit: int) -> bool:
    """Containers that the kubelet restarts in place count, too."""
    if (spec["template"].get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    total = sum(
        int(status.get("restartCount") or 0)
        for pod in found.active
        if pods.phase(pod) in ("Running", "Pending")
        for status in pods.container_statuses(pod)
    )
    return total >= limit if limit else total > 0


def deadline_left(job: Mapping[str, Any], now: datetime) -> float | None:
    """Seconds until ``activeDeadlineSeconds`` is over; None without one, or while suspended."""
    seconds, start = job["spec"].get("activeDeadlineSeconds"), (job.get("status") or {}).get("startTime")
    if seconds is None or not start or is_suspended(job):
        return None
    return (parse_time(start) + timedelta(seconds=seconds) - now).total_seconds()


@dataclass(slots=True)
class Plan:
    """Indexes to start pods for (-1 each for Jobs without indexes), pods to stop, and how long to hold back first."""

    start: list[int] = field(default_factory=list)
    stop: list[Object] = field(default_factory=list)
    wait: float | None = None


def next_step(job: Mapping[str, Any], found: Tally, mine: Sequence[Object], now: datetime) -> Plan:
    """Start what is missing, after a pause that grows with failures; stop what is too much."""
    if is_suspended(job):
        return Plan(stop=list(found.active))
    spec = job["spec"]
    parallelism = 1 if spec.get("parallelism") is None else int(spec["parallelism"])
    completions = spec.get("completions")
    if completions is None:
        wanted = min(len(found.active), parallelism) if found.succeeded else parallelism
    else:
        wanted = min(max(0, completions - found.succeeded), parallelism)
    surplus = len(found.active) - wanted
    if surplus > 0:
        ranked = sorted(
            found.active, key=lambda pod: (bool(pods.node_name(pod)), pods.is_ready(pod), pods.phase(pod) == "Running")
        )
        return Plan(stop=ranked[:surplus])
    missing = -surplus
    if _replaces_only_failed(job):
        missing -= found.terminating
    if missing <= 0:
        return Plan()
    wait = backoff_left(found, mine, now)
    if wait > 0:
        return Plan(wait=wait)
    if not is_indexed(job):
        return Plan(start=[-1] * missing)
    taken = found.completed | {indexes.of_pod(pod) for pod in found.active}
    free = [number for number in range(completions or 0) if number not in taken]
    return Plan(start=free[:missing])


def _worth(pod: Object) -> tuple[bool, bool, bool]:
    """Pods that have come further are stopped later."""
    return bool(pods.node_name(pod)), pods.phase(pod) == "Running", pods.is_ready(pod)


def backoff_left(found: Tally, mine: Sequence[Object], now: datetime) -> float:
    """Seconds still to hold back after failures that no success came after: 10, 20, 40... up to 600."""
    failures = sorted((_ended(pod, now) for pod in mine if pods.phase(pod) == "Failed"), reverse=True)
    successes = [_ended(pod, now) for pod in mine if pods.phase(pod) == "Succeeded"]
    last_success = max(successes, default=None)
    fresh = [moment for moment in failures if last_success is None or moment > last_success]
    if not fresh:
        return 0.0
    pause = min(_LONGEST_BACKOFF, _FIRST_BACKOFF * 2.0 ** (len(fresh) - 1))
    return max(0.0, pause - (now - fresh[0]).total_seconds())


def _ended(pod: Object, now: datetime) -> datetime:
    """When its last container ended, as far as is known."""
    moments = [
        parse_time(ended["finishedAt"])
        for status in pods.container_statuses(pod)
        if (ended := (status.get("state") or {}).get("terminated")) and ended.get("finishedAt")
    ]
    return max(moments, default=now - timedelta(seconds=_LONGEST_BACKOFF))


def new_pod(job: Object, index: int) -> Object:
    template = clone(job["spec"]["template"])
    prefix = f"{name_of(job)}-" if index < 0 else f"{name_of(job)}-{index}-"
    pod = from_template(template, job["metadata"]["namespace"], prefix, owner_reference(job, "batch/v1", "Job"))
    pod["metadata"]["finalizers"] = [*(pod["metadata"].get("finalizers") or ()), FINALIZER]
    if index >= 0:
        _give_index(job, pod, index)
    return pod


def _give_index(job: Object, pod: Object, index: int) -> None:
    """Known to the pod by annotation, label, host name and environment."""
    pod["metadata"].setdefault("annotations", {})[indexes.ANNOTATION] = str(index)
    pod["metadata"].setdefault("labels", {})[indexes.ANNOTATION] = str(index)
    spec = pod["spec"]
    spec["hostname"] = f"{name_of(job)}-{index}"
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{indexes.ANNOTATION}']"}}
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        if not any(each.get("name") == "JOB_COMPLETION_INDEX" for each in container.get("env") or ()):
            container.setdefault("env", []).append({"name": "JOB_COMPLETION_INDEX", "valueFrom": source})

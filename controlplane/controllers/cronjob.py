"""cronjob: makes a Job whenever the schedule is due. One timer per CronJob; nothing polls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from apimachinery.errors import StatusError
from apimachinery.meta import (
    Object,
    clone,
    condition_status,
    controller_of,
    creation_time,
    is_deleting,
    make_key,
    name_of,
    namespace_of,
    owner_reference,
    split_key,
    uid_of,
)
from apimachinery.resources import CRON_JOBS, JOBS
from apimachinery.times import format_time, parse_time
from controlplane.controllers.controller import BY_CONTROLLER, Environment, Loop
from controlplane.controllers.lib import cron
from controlplane.controllers.lib.pod_control import is_namespace_terminating
from controlplane.controllers.lib.replicas import same_status

SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_TOO_MANY = 100


@dataclass(frozen=True, slots=True)
class Due:
    """``run`` is the latest time that was missed and is still worth running; ``next`` is when to look again."""

    run: datetime | None
    next: datetime | None
    missed: int = 0


def zone_of(owner: Mapping[str, Any]) -> ZoneInfo:
    """Raises ValueError for a zone that this machine does not know."""
    name = owner["spec"].get("timeZone")
    try:
        return ZoneInfo(name) if name else ZoneInfo("UTC")
    except (ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(f"unknown timeZone {name!r}") from error


def due(owner: Mapping[str, Any], now: datetime) -> Due:
    """Missed times since the last run, or since creation; those older than ``startingDeadlineSeconds`` are lost."""
    spec, status = owner["spec"], owner.get("status") or {}
    schedule, zone = cron.parse(spec["schedule"]), zone_of(owner)
    last = parse_time(status["lastScheduleTime"]) if status.get("lastScheduleTime") else creation_time(owner) or now
    deadline = spec.get("startingDeadlineSeconds")
    since = last if deadline is None else max(last, now - timedelta(seconds=deadline))
    run, missed, moment = None, 0, since.astimezone(zone)
    upcoming = schedule.next_after(moment)
    while upcoming is not None and upcoming <= now:
        run, missed = upcoming, missed + 1
        if missed > _TOO_MANY:  # far behind: go on from now
            upcoming = schedule.next_after((now - timedelta(minutes=2)).astimezone(zone))
            while upcoming is not None and upcoming <= now:
                run, upcoming = upcoming, schedule.next_after(upcoming)
            break
        upcoming = schedule.next_after(upcoming)
    return Due(run.astimezone(UTC) if run else None, upcoming.astimezone(UTC) if upcoming else None, missed)


def new_job(owner: Object, when: datetime) -> Object:
    """The Job of one scheduled time; its name is made of that time, so it cannot be made twice."""
    template = clone(owner["spec"]["jobTemplate"])
    described = template.get("metadata") or {}
    metadata = {
        "name": f"{name_of(owner)}-{int(when.timestamp()) // 60}",
        "namespace": namespace_of(owner),
        "labels": described.get("labels") or {},
        "annotations": {**(described.get("annotations") or {}), SCHEDULED_AT: _local(owner, when)},
        "ownerReferences": [owner_reference(owner, "batch/v1", "CronJob")],
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"]}


def _local(owner: Object, when: datetime) -> str:
    """RFC 3339 in the schedule's own zone."""
    text = when.astimezone(zone_of(owner)).isoformat()
    return text.replace("+00:00", "Z")


def is_finished(job: Object) -> bool:
    return condition_status(job, "Complete") == "True" or condition_status(job, "Failed") == "True"


def beyond_limits(owner: Object, jobs: Sequence[Object]) -> list[Object]:
    """Finished Jobs that the history has no room for, oldest first."""
    old: list[Object] = []
    for kind, field, default in (("Complete", "successfulJobsHistoryLimit", 3), ("Failed", "failedJobsHistoryLimit", 1)):
        limit = owner["spec"].get(field)
        limit = default if limit is None else limit
        of_kind = sorted((job for job in jobs if condition_status(job, kind) == "True"), key=_started)
        old += of_kind[: max(0, len(of_kind) - limit)]
    return old


def _started(job: Object) -> str:
    return str((job.get("status") or {}).get("startTime") or job["metadata"].get("creationTimestamp") or "")


class CronJobController:
    """One loop over CronJobs; woken by them, their Jobs, and their next due time."""

    name = "cronjob-controller"

    def __init__(self, env: Environment, workers: int = 5) -> None:
        self._client, self._clock = env.client, env.clock
        self._recorder = env.recorders(self.name)
        self._owners = env.watch(CRON_JOBS)
        self._jobs = env.watch_owned(JOBS)
        self._loop = Loop(self.name, self.reconcile, env, workers)
        add = self._loop.add_object
        self._owners.add_handler(on_add=add, on_update=lambda old, new: add(new))
        self._jobs.add_handler(
            on_add=self._job_changed, on_update=lambda old, new: self._job_changed(new), on_delete=self._job_changed
        )

    async def run(self) -> None:
        await self._loop.run()

    def _job_changed(self, job: Object) -> None:
        reference = controller_of(job)
        if reference is not None and reference.get("kind") == "CronJob":
            self._loop.add(make_key(namespace_of(job), reference["name"]))

    async def reconcile(self, key: str) -> float | None:
        namespace, name = split_key(key)
        cached = self._owners.lister.get(name, namespace)
        if cached is None or is_deleting(cached):
            return None
        owner = clone(cached)
        jobs = self._jobs.lister.by_index(BY_CONTROLLER, uid_of(owner))
        self._note_jobs(owner, jobs)
        try:
            when = due(owner, self._clock.now())
        except ValueError as error:
            text = f"unparseable schedule {owner['spec'].get('schedule')!r}: {error}"
            self._recorder.event(owner, "Warning", "UnparseableSchedule", text)
            await self._write_status(cached, owner)
            return None
        if when.run is not None and not owner["spec"].get("suspend"):
            await self._run(owner, jobs, when)
        await self._write_status(cached, owner)
        for job in beyond_limits(owner, jobs):
            await self._delete(owner, job)
        if when.next is None or owner["spec"].get("suspend"):
            return None
        return max(0.0, (when.next - self._clock.now()).total_seconds()) + 0.1

    def _note_jobs(self, owner: Object, jobs: Sequence[Object]) -> None:
        """``status.active`` and ``status.lastSuccessfulTime`` from the Jobs there are."""
        status = owner.setdefault("status", {})
        running = [job for job in jobs if not is_finished(job) and not is_deleting(job)]
        status["active"] = [_reference(job) for job in sorted(running, key=name_of)]
        ended = [
            job["status"]["completionTime"]
            for job in jobs
            if condition_status(job, "Complete") == "True" and (job.get("status") or {}).get("completionTime")
        ]
        if ended:
            status["lastSuccessfulTime"] = max([*ended, status.get("lastSuccessfulTime") or ""])

    async def _run(self, owner: Object, jobs: Sequence[Object], when: Due) -> None:
        assert when.run is not None
        status = owner["status"]
        if when.missed > _TOO_MANY:
            text = (
                f"too many missed start times: {when.missed}. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            )
            self._recorder.event(owner, "Warning", "TooManyMissedTimes", text)
        policy = owner["spec"].get("concurrencyPolicy")
        if policy == "Forbid" and status["active"]:
            text = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self._recorder.event(owner, "Normal", "JobAlreadyActive", text)
            return
        if policy == "Replace":
            for job in jobs:
                if not is_finished(job) and not is_deleting(job):
                    await self._delete(owner, job)
            status["active"] = []
        job = new_job(owner, when.run)
        try:
            made = await self._client.create(JOBS, job)
        except StatusError as error:
            if is_namespace_terminating(error):
                return
            if error.reason != "AlreadyExists":
                self._recorder.event(owner, "Warning", "FailedCreate", f"Error creating job: {error.message}")
                raise
        else:
            self._recorder.event(owner, "Normal", "SuccessfulCreate", f"Created job {name_of(made)}")
            status["active"].append(_reference(made))
        status["lastScheduleTime"] = format_time(when.run)

    async def _delete(self, owner: Object, job: Object) -> None:
        try:
            await self._client.delete(JOBS, name_of(job), namespace_of(job), propagation="Background")
        except StatusError as error:
            if error.code != 404:
                raise
            return
        self._recorder.event(owner, "Normal", "SuccessfulDelete", f"Deleted job {name_of(job)}")

    async def _write_status(self, cached: Object, owner: Object) -> None:
        status = {field: value for field, value in owner["status"].items() if value}
        if not same_status(cached.get("status"), status):
            owner["status"] = status
            await self._client.update_status(CRON_JOBS, owner)


def _reference(job: Object) -> Object:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "namespace": namespace_of(job),
        "name": name_of(job),
        "uid": uid_of(job),
        "resourceVersion": job["metadata"].get("resourceVersion", ""),
    }

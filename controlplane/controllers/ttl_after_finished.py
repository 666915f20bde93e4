"""ttl_after_finished: deletes Jobs some time after they have ended (``spec.ttlSecondsAfterFinished``), and with them their pods.

One timer per Job. Before the deletion the Job is read anew: the time may have been made longer.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.meta import Object, conditions_of, is_deleting, name_of, namespace_of, resource_version, split_key, uid_of
from apimachinery.resources import JOBS
from apimachinery.times import parse_time
from client.rest import is_not_found
from controlplane.controllers.controller import Environment, Loop

_BUCKETS = tuple(0.1 * 2**power for power in range(14))


def expiry(job: Mapping[str, Any]) -> datetime | None:
    """When the Job is to go; None if it has not ended, or may stay. Raises ValueError for an end without a time."""
    seconds = (job.get("spec") or {}).get("ttlSecondsAfterFinished")
    if seconds is None or is_deleting(job):
        return None
    for condition in conditions_of(job):
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            if not condition.get("lastTransitionTime"):
                raise ValueError(f"unable to find the time when the Job {namespace_of(job)}/{name_of(job)} finished")
            return parse_time(condition["lastTransitionTime"]) + timedelta(seconds=seconds)
    return None


class TTLAfterFinishedController:
    """One loop over Jobs that have ended."""

    name = "ttl-after-finished-controller"

    def __init__(self, env: Environment, workers: int = 5) -> None:
        self._client, self._clock = env.client, env.clock
        self._jobs = env.watch(JOBS)
        self._waited = None
        if env.metrics is not None:
            text = "[ALPHA] The time it took to delete the job since it became eligible for deletion"
            name = "ttl_after_finished_controller_job_deletion_duration_seconds"
            self._waited = env.metrics.histogram(name, text, buckets=_BUCKETS)
        self._loop = Loop(self.name, self.reconcile, env, workers)
        self._jobs.add_handler(on_add=self._changed, on_update=lambda old, new: self._changed(new))

    async def run(self) -> None:
        await self._loop.run()

    def _changed(self, job: Object) -> None:
        if (job.get("spec") or {}).get("ttlSecondsAfterFinished") is not None:
            self._loop.add_object(job)

    async def reconcile(self, key: str) -> float | None:
        namespace, name = split_key(key)
        cached = self._jobs.lister.get(name, namespace)
        if cached is None or (left := self._left(cached)) is None:
            return None
        if left > 0:
            return left
        try:
            fresh = await self._client.get(JOBS, name, namespace)
            if uid_of(fresh) != uid_of(cached) or (left := self._left(fresh)) is None:
                return None
            if left > 0:
                return left
            preconditions = {"uid": uid_of(fresh), "resourceVersion": resource_version(fresh)}
            await self._client.delete(JOBS, name, namespace, propagation="Foreground", preconditions=preconditions)
        except StatusError as error:
            if not is_not_found(error):
                raise
            return None
        if self._waited is not None:
            self._waited.observe(-left)
        return None

    def _left(self, job: Object) -> float | None:
        when = expiry(job)
        return None if when is None else (when - self._clock.now()).total_seconds()

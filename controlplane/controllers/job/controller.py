"""job: the acting half; rules in ``plan`` and ``status``. Also deletes finished Jobs whose time to live is over."""

import asyncio
from collections.abc import Sequence

from apimachinery.errors import StatusError
from apimachinery.labels import from_label_selector
from apimachinery.meta import (
    Object,
    clone,
    conditions_of,
    controller_of,
    finalizers_of,
    has_finalizer,
    is_deleting,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    split_key,
    uid_of,
)
from apimachinery.resources import JOBS, PODS
from controlplane.controllers.controller import BY_CONTROLLER, Environment, Loop, orphans_of
from controlplane.controllers.job import plan
from controlplane.controllers.job.status import next_status
from controlplane.controllers.lib.claims import Claimer
from controlplane.controllers.lib.expectations import Expectations
from controlplane.controllers.lib.pod_control import PodControl, SlowStartError, slow_start
from controlplane.controllers.lib.replicas import same_status


class JobController:
    """One loop over Jobs; woken by them and by their pods."""

    name = "job-controller"

    def __init__(self, env: Environment, workers: int = 5) -> None:
        self._client, self._clock = env.client, env.clock
        self._recorder = env.recorders(self.name)
        self._pod_control = PodControl(env.client, self._recorder)
        self._expectations = Expectations(env.clock)
        self._claimer = Claimer(env.client, JOBS, "Job", PODS, plan.FINALIZER)
        self._jobs = env.watch(JOBS)
        self._pods = env.watch_owned(PODS)
        self._loop = Loop(self.name, self.reconcile, env, workers)
        self._orphans = Loop(f"{self.name}-orphans", self._release_orphan, env, 1)
        add = self._loop.add_object
        self._jobs.add_handler(on_add=add, on_update=lambda old, new: add(new), on_delete=self._job_deleted)
        self._pods.add_handler(on_add=self._pod_added, on_update=self._pod_updated, on_delete=self._pod_deleted)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._loop.run(), name=self.name)
            group.create_task(self._orphans.run(), name=f"{self.name}-orphans")

    def _job_deleted(self, job: Object) -> None:
        """Its pods must not wait for a Job that will never count them."""
        self._expectations.forget(key_of(job))
        self._loop.add_object(job)
        for pod in self._pods.lister.by_index(BY_CONTROLLER, uid_of(job)):
            self._note_orphan(pod)

    def _note_orphan(self, pod: Object) -> None:
        if has_finalizer(pod, plan.FINALIZER):
            self._orphans.add_object(pod)

    def _key_of_owner(self, pod: Object) -> str | None:
        reference = controller_of(pod)
        if reference is None or reference.get("kind") != "Job":
            return None
        return f"{namespace_of(pod)}/{reference['name']}"

    def _pod_added(self, pod: Object) -> None:
        key = self._key_of_owner(pod)
        if key is None or self._jobs.lister.get(split_key(key)[1], namespace_of(pod)) is None:
            self._note_orphan(pod)  # its Job may have gone while nobody looked
        if key is None:
            if controller_of(pod) is None:
                self._wake_adopters(pod)
            return
        if is_deleting(pod):
            self._expectations.deletion_observed(key, uid_of(pod))
        else:
            self._expectations.creation_observed(key)
        self._loop.add(key)

    def _pod_updated(self, old: Object, new: Object) -> None:
        for key in {self._key_of_owner(old), self._key_of_owner(new)} - {None}:
            if is_deleting(new):
                self._expectations.deletion_observed(str(key), uid_of(new))
            self._loop.add(str(key))
        if controller_of(new) is None:
            self._note_orphan(new)
            if labels_of(old) != labels_of(new) or controller_of(old) is not None:
                self._wake_adopters(new)

    def _pod_deleted(self, pod: Object) -> None:
        key = self._key_of_owner(pod)
        if key is not None:
            self._expectations.deletion_observed(key, uid_of(pod))
            self._loop.add(key)

    def _wake_adopters(self, pod: Object) -> None:
        for job in self._jobs.lister.list(namespace_of(pod)):
            if from_label_selector(job["spec"].get("selector")).matches(labels_of(pod)) and labels_of(pod):
                self._loop.add_object(job)

    async def reconcile(self, key: str) -> float | None:
        namespace, name = split_key(key)
        cached = self._jobs.lister.get(name, namespace)
        if cached is None or is_deleting(cached):
            await self._release_all(namespace, name)
            return None
        if cached["spec"].get("managedBy") not in (None, "kubernetes.io/job-controller"):
            return None
        job = clone(cached)
        mine = await self._claimed(job)
        if plan.is_finished(job):
            await self._release([pod for pod in mine if has_finalizer(pod, plan.FINALIZER)])
            return None
        found = plan.tally(job, mine)
        now = self._clock.now()
        over = plan.verdict(job, found, now)
        waits = [plan.deadline_left(job, now)]
        if self._expectations.satisfied(key):
            waits.append(await self._act(key, job, found, mine, over))
        await self._write_status(cached, job, found, over)
        await self._release(found.to_release)
        pending = [each for each in waits if each is not None]
        return max(0.0, min(pending)) + 0.05 if pending and over is None else None

    async def _claimed(self, job: Object) -> list[Object]:
        lister = self._pods.lister
        mine = lister.by_index(BY_CONTROLLER, uid_of(job))
        orphans = lister.by_index(BY_CONTROLLER, orphans_of(namespace_of(job)))
        return await self._claimer.claim(job, from_label_selector(job["spec"]["selector"]), [*mine, *orphans])

    async def _act(
        self, key: str, job: Object, found: plan.Tally, mine: Sequence[Object], over: plan.Verdict | None
    ) -> float | None:
        if over is not None:
            await self._stop(key, job, found.active)
            found.terminating += len(found.active)
            found.active = []
            return None
        step = plan.next_step(job, found, mine, self._clock.now())
        if step.stop:
            await self._stop(key, job, step.stop)
            stopped = {uid_of(pod) for pod in step.stop}
            found.active = [pod for pod in found.active if uid_of(pod) not in stopped]
        elif step.start:
            found.active += await self._start(key, job, step.start)
        return step.wait

    async def _start(self, key: str, job: Object, wanted: Sequence[int]) -> list[Object]:
        self._expectations.expect_creations(key, len(wanted))
        remaining, made = list(wanted), []

        async def create() -> bool:
            made.append(await self._pod_control.create(job, plan.new_pod(job, remaining.pop(0))))
            return True

        try:
            await slow_start(len(wanted), 1, create)
        except SlowStartError as failed:
            self._expectations.creation_observed(key, len(wanted) - failed.done)
            raise failed.cause from failed
        return made

    async def _stop(self, key: str, job: Object, victims: Sequence[Object]) -> None:
        if not victims:
            return
        self._expectations.expect_deletions(key, [uid_of(pod) for pod in victims])

        async def delete(pod: Object) -> None:
            gone = True
            try:
                gone = not await self._pod_control.delete(job, pod)
            finally:
                if gone:
                    self._expectations.deletion_observed(key, uid_of(pod))

        for result in await asyncio.gather(*(delete(pod) for pod in victims), return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def _write_status(self, cached: Object, job: Object, found: plan.Tally, over: plan.Verdict | None) -> None:
        status = next_status(job, found, over, self._clock.now())
        if same_status(cached.get("status"), status):
            return
        job["status"] = status
        await self._client.update_status(JOBS, job)
        known = {each["type"] for each in conditions_of(cached) if each.get("status") == "True"}
        fresh = {each["type"] for each in conditions_of(job) if each.get("status") == "True"} - known
        if "Complete" in fresh:
            self._recorder.event(job, "Normal", "Completed", "Job completed")
        elif "Failed" in fresh and over is not None:
            self._recorder.event(job, "Warning", over.reason, over.message)
        elif "Suspended" in fresh:
            self._recorder.event(job, "Normal", "Suspended", "Job suspended")

    # Finalizers

    async def _release(self, finished: Sequence[Object]) -> None:
        """Only after the status with their uids is stored."""
        await asyncio.gather(*(self._remove_finalizer(pod) for pod in finished))

    async def _release_all(self, namespace: str, name: str) -> None:
        for pod in self._pods.lister.list(namespace):
            if self._key_of_owner(pod) == f"{namespace}/{name}" and has_finalizer(pod, plan.FINALIZER):
                await self._remove_finalizer(pod)

    async def _release_orphan(self, key: str) -> None:
        """A pod with the finalizer that no Job counts, whoever left it so, would never go."""
        namespace, name = split_key(key)
        pod = self._pods.lister.get(name, namespace)
        if pod is None or not has_finalizer(pod, plan.FINALIZER):
            return
        reference = controller_of(pod)
        if reference is not None and reference.get("kind") != "Job":
            return
        job = self._jobs.lister.get(reference["name"], namespace) if reference is not None else None
        if job is None or (reference is not None and uid_of(job) != reference["uid"]):
            await self._remove_finalizer(pod)

    async def _remove_finalizer(self, pod: Object) -> None:
        kept = [each for each in finalizers_of(pod) if each != plan.FINALIZER]
        metadata = {"uid": uid_of(pod), "resourceVersion": pod["metadata"]["resourceVersion"], "finalizers": kept}
        try:
            await self._client.patch(PODS, name_of(pod), {"metadata": metadata}, namespace=namespace_of(pod))
        except StatusError as error:
            if error.code != 404:
                raise

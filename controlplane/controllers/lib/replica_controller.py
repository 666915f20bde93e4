"""Keeps as many pods as ``spec.replicas`` says: the loop of replicaset and replication_controller; rules in ``replicas``."""

import asyncio
from collections.abc import Callable
from typing import ClassVar

from apimachinery.gvk import GroupVersionResource
from apimachinery.labels import Selector, from_label_selector
from apimachinery.meta import (
    Object,
    controller_of,
    is_deleting,
    key_of,
    labels_of,
    make_key,
    name_of,
    namespace_of,
    owner_reference,
    split_key,
    uid_of,
)
from apimachinery.objects import pods
from apimachinery.resources import PODS
from controlplane.controllers.controller import BY_CONTROLLER, Environment, Loop, orphans_of
from controlplane.controllers.lib import replicas
from controlplane.controllers.lib.claims import Claimer
from controlplane.controllers.lib.expectations import Expectations
from controlplane.controllers.lib.freshness import PAUSE_SECONDS, Written
from controlplane.controllers.lib.pod_control import PARALLEL, PodControl, SlowStartError, from_template, slow_start
from controlplane.controllers.lib.writes import write_status


class ReplicaController:
    """One loop over the owners of one kind; woken by changes of the owners and of their pods."""

    name: str
    resource: ClassVar[GroupVersionResource]
    kind: ClassVar[str]

    def __init__(self, env: Environment, workers: int = 5) -> None:
        self._client, self._clock = env.client, env.clock
        self._expectations = Expectations(env.clock)
        self._pod_control = PodControl(env.client, env.recorders(self.name))
        self._claimer = Claimer(env.client, self.resource, self.kind, PODS)
        self._sets = env.watch_owned(self.resource)
        self._pods = env.watch_owned(PODS)
        self._written = Written(self._sets.lister, env.clock)
        self._loop = Loop(self.name, self.reconcile, env, workers)
        self._sets.add_handler(
            on_add=self._loop.add_object, on_update=lambda old, new: self._loop.add_object(new), on_delete=self._set_deleted
        )
        self._pods.add_handler(on_add=self._pod_added, on_update=self._pod_updated, on_delete=self._pod_deleted)

    async def run(self) -> None:
        await self._loop.run()

    @staticmethod
    def selector_of(owner: Object) -> Selector:
        return from_label_selector(owner["spec"]["selector"])

    # What happened to whom: handlers only count down expectations and enqueue.

    def _set_deleted(self, owner: Object) -> None:
        self._written.forget(key_of(owner), owner)
        self._expectations.forget(key_of(owner))
        self._loop.add_object(owner)

    def _owner_key(self, pod: Object) -> str | None:
        reference = controller_of(pod)
        if reference is None or reference.get("kind") != self.kind:
            return None
        owner = self._sets.lister.get(reference["name"], namespace_of(pod))
        return key_of(owner) if owner is not None and uid_of(owner) == reference["uid"] else None

    def _pod_added(self, pod: Object) -> None:
        if is_deleting(pod):  # seen for the first time while already going: a restart, or a missed event
            self._pod_deleted(pod)
            return
        if controller_of(pod) is None:
            self._wake_adopters(pod)
            return
        key = self._owner_key(pod)
        if key is None:
            # The pod may be seen before the set that made it; the set's own event follows, the count must not be lost.
            reference = controller_of(pod) or {}
            if reference.get("kind") == self.kind:
                self._expectations.creation_observed(make_key(namespace_of(pod), reference["name"]))
            return
        self._expectations.creation_observed(key)
        self._loop.add(key)

    def _pod_updated(self, old: Object, new: Object) -> None:
        if is_deleting(new) and not is_deleting(old):
            self._pod_deleted(new)
            return
        before, after = self._owner_key(old), self._owner_key(new)
        if before is not None and before != after:
            self._loop.add(before)
        if after is not None:
            self._loop.add(after)
        elif controller_of(new) is None and (labels_of(old) != labels_of(new) or controller_of(old) is not None):
            self._wake_adopters(new)

    def _pod_deleted(self, pod: Object) -> None:
        key = self._owner_key(pod)
        if key is not None:
            self._expectations.deletion_observed(key, uid_of(pod))
            self._loop.add(key)

    def _wake_adopters(self, pod: Object) -> None:
        for owner in self._sets.lister.list(namespace_of(pod)):
            if self.selector_of(owner).matches(labels_of(pod)):
                self._loop.add_object(owner)

    # Reconcile

    async def reconcile(self, key: str) -> float | None:
        namespace, name = split_key(key)
        owner = self._sets.lister.get(name, namespace)
        if owner is None:
            self._expectations.forget(key)
            return None
        if not self._written.seen(key):  # on the strength of the old status the same would be written again
            return PAUSE_SECONDS
        may_act = self._expectations.satisfied(key)
        mine = await self._claimed(owner)
        active = [pod for pod in mine if pods.is_active(pod)]
        failure, error = None, None
        if may_act and not is_deleting(owner):
            try:
                await self._act(key, owner, active)
            except Exception as raised:
                error = raised
                reason = "FailedCreate" if len(active) < owner["spec"].get("replicas", 1) else "FailedDelete"
                failure = replicas.Failure(reason, str(raised))
        terminating = sum(is_deleting(pod) and not pods.is_terminal(pod) for pod in mine)
        await self._write_status(owner, active, terminating, failure)
        if error is not None:
            raise error
        return replicas.next_look(owner, active, self._clock.now())

    async def _claimed(self, owner: Object) -> list[Object]:
        lister = self._pods.lister
        mine = lister.by_index(BY_CONTROLLER, uid_of(owner))
        orphans = lister.by_index(BY_CONTROLLER, orphans_of(namespace_of(owner)))
        selector = self.selector_of(owner)
        return await self._claimer.claim(owner, selector, [*mine, *orphans], adoptable=pods.is_active)

    async def _act(self, key: str, owner: Object, active: list[Object]) -> None:
        plan = replicas.plan(owner, active, self._related(owner), self._clock.now())
        if plan.create:
            await self._create(key, owner, plan.create)
        elif plan.delete:
            await self._delete(key, owner, list(plan.delete))

    def _related(self, owner: Object) -> Callable[[], list[Object]]:
        """Pods of all sets under the same Deployment, for spreading deletions over nodes."""

        def listed() -> list[Object]:
            above = replicas.grand_owner(owner)
            siblings = self._sets.lister.by_index(BY_CONTROLLER, above) if above else [owner]
            return [pod for each in siblings for pod in self._pods.lister.by_index(BY_CONTROLLER, uid_of(each))]

        return listed

    async def _create(self, key: str, owner: Object, count: int) -> None:
        reference = owner_reference(owner, self.resource.api_version, self.kind)
        pod = from_template(owner["spec"]["template"], namespace_of(owner), f"{name_of(owner)}-", reference)
        self._expectations.expect_creations(key, count)

        async def create() -> bool:
            await self._pod_control.create(owner, pod)
            return True

        try:
            await slow_start(count, 1, create)
        except SlowStartError as failed:
            self._expectations.creation_observed(key, count - failed.done)
            raise failed.cause from failed

    async def _delete(self, key: str, owner: Object, victims: list[Object]) -> None:
        self._expectations.expect_deletions(key, [uid_of(pod) for pod in victims])

        slots = asyncio.Semaphore(PARALLEL)

        async def delete(pod: Object) -> None:
            async with slots:
                await delete_now(pod)

        async def delete_now(pod: Object) -> None:
            try:
                gone = not await self._pod_control.delete(owner, pod)
            except BaseException:
                self._expectations.deletion_observed(key, uid_of(pod))
                raise
            if gone:
                self._expectations.deletion_observed(key, uid_of(pod))

        results = await asyncio.gather(*(delete(pod) for pod in victims), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _write_status(
        self, owner: Object, active: list[Object], terminating: int, failure: replicas.Failure | None
    ) -> None:
        status = replicas.next_status(owner, active, terminating, failure, self._clock.now())
        if replicas.same_status(owner.get("status"), status):
            return
        self._written.note(key_of(owner), await write_status(self._client, self.resource, owner, status))

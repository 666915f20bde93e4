"""daemonset: the acting half; rules in ``plan``."""

import asyncio
from collections.abc import Sequence

from apimachinery.errors import StatusError
from apimachinery.labels import from_label_selector
from apimachinery.meta import (
    Object,
    clone,
    controller_of,
    is_deleting,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    split_key,
    uid_of,
)
from apimachinery.objects import nodes, pods
from apimachinery.resources import CONTROLLER_REVISIONS, DAEMON_SETS, NODES, PODS
from controlplane.controllers.controller import BY_CONTROLLER, Environment, Loop, orphans_of
from controlplane.controllers.daemonset import plan
from controlplane.controllers.lib import replicas
from controlplane.controllers.lib.claims import Claimer
from controlplane.controllers.lib.expectations import Expectations
from controlplane.controllers.lib.history import REVISION_LABEL, History, surplus
from controlplane.controllers.lib.pod_control import PodControl
from controlplane.controllers.lib.retries import Retries


class DaemonSetController:
    """One loop over DaemonSets; woken by them, their pods, and nodes that change in what matters for placing."""

    name = "daemonset-controller"

    def __init__(self, env: Environment, workers: int = 2) -> None:
        self._client, self._clock = env.client, env.clock
        self._recorder = env.recorders(self.name)
        self._pod_control = PodControl(env.client, self._recorder)
        self._expectations = Expectations(env.clock)
        self._retries = Retries(env.clock)
        self._claimer = Claimer(env.client, DAEMON_SETS, "DaemonSet", PODS)
        self._owners = env.watch(DAEMON_SETS)
        self._pods = env.watch_owned(PODS)
        self._nodes = env.watch(NODES)
        revisions = env.watch_owned(CONTROLLER_REVISIONS)
        self._history = History(env.client, revisions.lister, DAEMON_SETS, "DaemonSet")
        self._loop = Loop(self.name, self.reconcile, env, workers)
        add = self._loop.add_object
        self._owners.add_handler(on_add=add, on_update=lambda old, new: add(new), on_delete=self._owner_deleted)
        self._pods.add_handler(on_add=self._pod_added, on_update=self._pod_updated, on_delete=self._pod_deleted)
        self._nodes.add_handler(on_add=self._node_changed, on_update=self._node_updated, on_delete=self._node_changed)

    async def run(self) -> None:
        await self._loop.run()

    def _owner_deleted(self, owner: Object) -> None:
        self._expectations.forget(key_of(owner))

    def _owner_of(self, pod: Object) -> str | None:
        reference = controller_of(pod)
        if reference is None or reference.get("kind") != "DaemonSet":
            return None
        owner = self._owners.lister.get(reference["name"], namespace_of(pod))
        return key_of(owner) if owner is not None and uid_of(owner) == reference["uid"] else None

    def _pod_added(self, pod: Object) -> None:
        key = self._owner_of(pod)
        if key is None:
            if controller_of(pod) is None and not is_deleting(pod):
                self._wake_adopters(pod)
            return
        if is_deleting(pod):
            self._expectations.deletion_observed(key, uid_of(pod))
        else:
            self._expectations.creation_observed(key)
        self._loop.add(key)

    def _pod_updated(self, old: Object, new: Object) -> None:
        for key in {self._owner_of(old), self._owner_of(new)} - {None}:
            if is_deleting(new):
                self._expectations.deletion_observed(str(key), uid_of(new))
            self._loop.add(str(key))
        if controller_of(new) is None and labels_of(old) != labels_of(new):
            self._wake_adopters(new)

    def _pod_deleted(self, pod: Object) -> None:
        key = self._owner_of(pod)
        if key is not None:
            self._expectations.deletion_observed(key, uid_of(pod))
            self._loop.add(key)

    def _wake_adopters(self, pod: Object) -> None:
        for owner in self._owners.lister.list(namespace_of(pod)):
            if from_label_selector(owner["spec"]["selector"]).matches(labels_of(pod)):
                self._loop.add_object(owner)

    def _node_changed(self, node: Object) -> None:
        for owner in self._owners.lister.list():
            self._loop.add_object(owner)

    def _node_updated(self, old: Object, new: Object) -> None:
        if labels_of(old) != labels_of(new) or nodes.taints(old) != nodes.taints(new):
            self._node_changed(new)

    async def reconcile(self, key: str) -> float | None:
        namespace, name = split_key(key)
        cached = self._owners.lister.get(name, namespace)
        if cached is None or is_deleting(cached):
            return None
        owner = clone(cached)
        mine = await self._claimed(owner)
        revision, revisions = await self._revision(owner)
        digest = labels_of(revision)[REVISION_LABEL]
        wait = None
        if self._expectations.satisfied(key):
            wait = await self._place(key, owner, mine, digest)
        if self._expectations.satisfied(key):
            step = plan.update(owner, self._nodes.lister.list(), mine, digest, self._clock.now())
            await self._perform(key, owner, step, digest)
            await self._clean(owner, mine, revision, revisions)
        await self._write_status(cached, owner, mine, digest)
        look = replicas.next_look(owner, mine, self._clock.now())
        waits = [each for each in (wait, look) if each is not None]
        return min(waits) if waits else None

    async def _claimed(self, owner: Object) -> list[Object]:
        lister = self._pods.lister
        mine = lister.by_index(BY_CONTROLLER, uid_of(owner))
        orphans = lister.by_index(BY_CONTROLLER, orphans_of(namespace_of(owner)))
        return await self._claimer.claim(owner, from_label_selector(owner["spec"]["selector"]), [*mine, *orphans])

    async def _revision(self, owner: Object) -> tuple[Object, list[Object]]:
        held = await self._history.revisions(owner)
        try:
            return await self._history.current(owner, held)
        except StatusError as error:
            if error.reason == "AlreadyExists":
                status = owner.setdefault("status", {})
                status["collisionCount"] = (status.get("collisionCount") or 0) + 1
                await self._client.update_status(DAEMON_SETS, owner)
            raise

    async def _place(self, key: str, owner: Object, mine: Sequence[Object], digest: str) -> float | None:
        """Put pods where they are missing. A node on which the daemon keeps failing is tried less and less often."""
        wanted = plan.placement(owner, self._nodes.lister.list(), mine, digest, self._clock.now())
        wait = None
        for pod in wanted.failed:
            where = f"{uid_of(owner)}/{plan.target_node(pod)}"
            pause = self._retries.pause(where)
            if pause > 0:
                wanted.delete.remove(pod)
                wait = pause if wait is None else min(wait, pause)
                continue
            self._retries.failed(where)
            text = f"Found failed daemon pod {key_of(pod)} on node {pods.node_name(pod)}, will try to kill it"
            self._recorder.event(owner, "Warning", "FailedDaemonPod", text)
        await self._perform(key, owner, wanted, digest)
        return wait

    async def _perform(self, key: str, owner: Object, wanted: plan.Plan, digest: str) -> None:
        if not wanted.create and not wanted.delete:
            return
        self._expectations.expect_creations(key, len(wanted.create))
        self._expectations.expect_deletions(key, [uid_of(pod) for pod in wanted.delete])

        async def create(node: str) -> None:
            try:
                await self._pod_control.create(owner, plan.new_pod(owner, node, digest))
            except BaseException:
                self._expectations.creation_observed(key)
                raise

        async def delete(pod: Object) -> None:
            gone = True
            try:
                gone = not await self._pod_control.delete(owner, pod)
            finally:
                if gone:
                    self._expectations.deletion_observed(key, uid_of(pod))

        work = [*(create(node) for node in wanted.create), *(delete(pod) for pod in wanted.delete)]
        for result in await asyncio.gather(*work, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def _clean(self, owner: Object, mine: Sequence[Object], current: Object, revisions: Sequence[Object]) -> None:
        digests = {labels_of(pod).get(REVISION_LABEL) for pod in mine}
        live = [name_of(each) for each in revisions if labels_of(each).get(REVISION_LABEL) in digests]
        limit = owner["spec"].get("revisionHistoryLimit")
        await self._history.drop(surplus(revisions, [*live, name_of(current)], 10 if limit is None else limit))

    async def _write_status(self, cached: Object, owner: Object, mine: Sequence[Object], digest: str) -> None:
        status = plan.status(owner, self._nodes.lister.list(), mine, digest, self._clock.now())
        if not replicas.same_status(cached.get("status"), status):
            owner["status"] = status
            await self._client.update_status(DAEMON_SETS, owner)

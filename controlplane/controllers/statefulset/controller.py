"""statefulset: the acting half; rules in ``plan``, identities in ``pods``."""

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
from apimachinery.resources import CONTROLLER_REVISIONS, PODS, STATEFUL_SETS
from apimachinery.resources import PERSISTENT_VOLUME_CLAIMS as CLAIMS
from controlplane.controllers.controller import BY_CONTROLLER, Environment, Loop, orphans_of
from controlplane.controllers.lib import replicas
from controlplane.controllers.lib.claims import Claimer
from controlplane.controllers.lib.history import History, surplus, template_of
from controlplane.controllers.statefulset import plan
from controlplane.controllers.statefulset.pods import claims, goes_with_another, is_member, new_pod, revision_of, with_retention

_CLAIM_PAUSE = 1.0


class StatefulSetController:
    """One loop over StatefulSets. Names are fixed, so a pod can never be made twice: no expectations are needed."""

    name = "statefulset-controller"

    def __init__(self, env: Environment, workers: int = 5) -> None:
        self._client, self._clock = env.client, env.clock
        self._recorder = env.recorders(self.name)
        self._claimer = Claimer(env.client, STATEFUL_SETS, "StatefulSet", PODS)
        self._owners = env.watch(STATEFUL_SETS)
        self._pods, self._claims = env.watch_owned(PODS), env.watch(CLAIMS)
        revisions = env.watch_owned(CONTROLLER_REVISIONS)
        self._history = History(env.client, revisions.lister, STATEFUL_SETS, "StatefulSet")
        self._loop = Loop(self.name, self.reconcile, env, workers)
        add = self._loop.add_object
        self._owners.add_handler(on_add=add, on_update=lambda old, new: add(new))
        self._pods.add_handler(on_add=self._pod_changed, on_update=self._pod_updated, on_delete=self._pod_changed)

    async def run(self) -> None:
        await self._loop.run()

    def _pod_updated(self, old: Object, new: Object) -> None:
        if controller_of(old) != controller_of(new):
            self._pod_changed(old)
        self._pod_changed(new)

    def _pod_changed(self, pod: Object) -> None:
        reference = controller_of(pod)
        if reference is not None:
            owner = self._owners.lister.get(reference["name"], namespace_of(pod))
            if owner is not None and uid_of(owner) == reference["uid"]:
                self._loop.add_object(owner)
            return
        for owner in self._owners.lister.list(namespace_of(pod)):
            if is_member(owner, pod) and from_label_selector(owner["spec"]["selector"]).matches(labels_of(pod)):
                self._loop.add_object(owner)

    async def reconcile(self, key: str) -> float | None:
        namespace, name = split_key(key)
        cached = self._owners.lister.get(name, namespace)
        if cached is None or is_deleting(cached):
            return None
        owner = clone(cached)
        lister = self._pods.lister
        mine = lister.by_index(BY_CONTROLLER, uid_of(owner))
        orphans = [pod for pod in lister.by_index(BY_CONTROLLER, orphans_of(namespace)) if is_member(owner, pod)]
        members = await self._claimer.claim(owner, from_label_selector(owner["spec"]["selector"]), [*mine, *orphans])
        members = [pod for pod in members if is_member(owner, pod)]
        update, all_revisions = await self._revision(owner)
        held = {name_of(each): each for each in all_revisions}
        current = (owner.get("status") or {}).get("currentRevision") or ""
        revisions = plan.Revisions(current if current in held else name_of(update), name_of(update))
        step = plan.next_step(owner, members, revisions, self._clock.now())
        try:
            for pod in members:  # those that are scaled away take their claims with them, if that is wanted
                await self._retain_claims(owner, pod)
            await self._perform(owner, step, held)
        finally:
            await self._write_status(cached, owner, members, revisions)
        await self._clean(owner, members, revisions, all_revisions)
        return replicas.next_look(owner, members, self._clock.now())

    async def _revision(self, owner: Object) -> tuple[Object, list[Object]]:
        held = await self._history.revisions(owner)
        try:
            return await self._history.current(owner, held)
        except StatusError as error:
            if error.reason == "AlreadyExists":
                status = owner.setdefault("status", {})
                status["collisionCount"] = (status.get("collisionCount") or 0) + 1
                await self._client.update_status(STATEFUL_SETS, owner)
            raise

    async def _perform(self, owner: Object, step: plan.Plan, revisions: dict[str, Object]) -> None:
        for number, revision in step.create.items():
            template = template_of(revisions[revision])
            await self._create(owner, new_pod(owner, template, revision, number))
        for pod in step.delete:
            await self._delete(owner, pod)

    async def _create(self, owner: Object, pod: Object) -> None:
        what = f"Pod {name_of(pod)} in StatefulSet {name_of(owner)}"
        try:
            for claim in claims(owner, pod):
                held = self._claims.lister.get(name_of(claim), namespace_of(claim))
                if held is not None and (is_deleting(held) or goes_with_another(held, name_of(pod))):
                    self._loop.add_after(key_of(owner), _CLAIM_PAUSE)  # until the claim of its predecessor is gone
                    return
                await self._create_claim(owner, claim, pod)
            await self._client.create(PODS, pod)
        except StatusError as error:
            if error.reason == "AlreadyExists":
                return
            text = f"create {what} failed error: {error.message}"
            self._recorder.event(owner, "Warning", "FailedCreate", text)
            raise
        self._recorder.event(owner, "Normal", "SuccessfulCreate", f"create {what} successful")

    async def _retain_claims(self, owner: Object, pod: Object) -> None:
        for wanted in claims(owner, pod):
            claim = self._claims.lister.get(name_of(wanted), namespace_of(wanted))
            if claim is None or is_deleting(claim):
                continue
            changed = with_retention(owner, pod, claim)
            if changed is not claim:
                await self._client.update(CLAIMS, changed)

    async def _create_claim(self, owner: Object, claim: Object, pod: Object) -> None:
        try:
            await self._client.create(CLAIMS, claim)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
            return
        text = f"create Claim {name_of(claim)} Pod {name_of(pod)} in StatefulSet {name_of(owner)} success"
        self._recorder.event(owner, "Normal", "SuccessfulCreate", text)

    async def _delete(self, owner: Object, pod: Object) -> None:
        what = f"Pod {name_of(pod)} in StatefulSet {name_of(owner)}"
        try:
            await self._client.delete(PODS, name_of(pod), namespace_of(pod), preconditions={"uid": uid_of(pod)})
        except StatusError as error:
            if error.code == 404:
                return
            self._recorder.event(owner, "Warning", "FailedDelete", f"delete {what} failed error: {error.message}")
            raise
        self._recorder.event(owner, "Normal", "SuccessfulDelete", f"delete {what} successful")

    async def _write_status(self, cached: Object, owner: Object, members: Sequence[Object], revisions: plan.Revisions) -> None:
        status = plan.status(owner, members, revisions, self._clock.now())
        if not replicas.same_status(cached.get("status"), status):
            owner["status"] = status
            await self._client.update_status(STATEFUL_SETS, owner)

    async def _clean(self, owner: Object, members: Sequence[Object], revisions: plan.Revisions, held: Sequence[Object]) -> None:
        live = {revisions.current, revisions.update, *(revision_of(pod) for pod in members)}
        limit = owner["spec"].get("revisionHistoryLimit")
        await self._history.drop(surplus(held, live, 10 if limit is None else limit))

"""One pass over one Deployment: reads caches, asks ``rollout``, ``revisions`` and ``status`` what to do, and does it.

Called by ``controller`` for each key; every write goes to the API server and is repeated from state if it fails.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.labels import from_label_selector
from apimachinery.meta import (
    Object,
    clone,
    get_condition,
    is_controlled_by,
    is_deleting,
    key_of,
    name_of,
    namespace_of,
    uid_of,
)
from apimachinery.objects import pods
from apimachinery.resources import DEPLOYMENTS, REPLICA_SETS
from client.events import Recorder
from client.lister import Lister
from client.rest import Client
from component.clock import Clock
from controlplane.controllers.controller import BY_CONTROLLER, orphans_of
from controlplane.controllers.deployment import revisions, rollout, status
from controlplane.controllers.deployment.facts import (
    REVISION,
    active,
    is_paused,
    others,
    progress_deadline,
    reported,
    strategy,
    wanted,
)
from controlplane.controllers.lib.claims import Claimer
from controlplane.controllers.lib.freshness import Written
from controlplane.controllers.lib.pod_control import is_namespace_terminating
from controlplane.controllers.lib.replicas import same_status
from controlplane.controllers.lib.writes import write_spec, write_status


@dataclass(frozen=True, slots=True)
class Tools:
    """What a pass reads from and acts through."""

    client: Client
    clock: Clock
    recorder: Recorder
    claimer: Claimer
    deployments: Lister
    sets: Lister
    pods: Lister
    written: Written
    written_sets: Written


class Reconciliation:
    """One pass over one Deployment. ``deployment`` is this pass's own copy; ``sets`` are replaced as they are written."""

    def __init__(self, tools: Tools, deployment: Object) -> None:
        self._t = tools
        self.deployment = deployment
        self.sets: list[Object] = []
        self.new: Object | None = None

    @property
    def old(self) -> list[Object]:
        return others(self.sets, self.new)

    async def run(self) -> float | None:
        await self._claim()
        if is_deleting(self.deployment):
            return await self._write(status.counts(self.deployment, self._find_new(), self.sets, self._now())["status"])
        await self._note_pause()
        if is_paused(self.deployment) or rollout.is_scaling(self.deployment, self.sets):
            return await self._scale()
        if strategy(self.deployment) == "Recreate":
            return await self._recreate()
        return await self._roll()

    def _now(self) -> datetime:
        return self._t.clock.now()

    async def _claim(self) -> None:
        lister = self._t.sets
        mine = lister.by_index(BY_CONTROLLER, uid_of(self.deployment))
        orphans = lister.by_index(BY_CONTROLLER, orphans_of(namespace_of(self.deployment)))
        selector = from_label_selector(self.deployment["spec"]["selector"])
        self.sets = await self._t.claimer.claim(self.deployment, selector, [*mine, *orphans])

    def _find_new(self) -> Object | None:
        self.new = revisions.find_new(self.deployment, self.sets)
        return self.new

    # The three roads

    async def _scale(self) -> float | None:
        await self._sync_revision(create=False)
        await self._resize(rollout.scale(self.deployment, self.new, self.sets))
        if is_paused(self.deployment):
            await self._drop_surplus()
        return await self._write(status.counts(self.deployment, self.new, self.sets, self._now())["status"])

    async def _roll(self) -> float | None:
        await self._sync_revision(create=True)
        assert self.new is not None
        steps = rollout.grow_new(self.deployment, self.new, self.old)
        steps = steps or rollout.shrink_old(self.deployment, self.new, self.old)
        await self._resize(steps)
        if not steps:
            await self._finish()
        return await self._write_progress()

    async def _recreate(self) -> float | None:
        await self._sync_revision(create=False)
        steps = [rollout.Resize(each, 0) for each in active(self.old)]
        if steps:
            await self._resize(steps)
            return await self._write_progress()
        if self._old_pods_remain():
            return await self._write_progress()
        await self._sync_revision(create=True)
        assert self.new is not None
        if wanted(self.new) != wanted(self.deployment):
            await self._resize([rollout.Resize(self.new, wanted(self.deployment))])
        await self._finish()
        return await self._write_progress()

    def _old_pods_remain(self) -> bool:
        if any(reported(each, "replicas") for each in self.old):
            return True
        lister = self._t.pods
        return any(not pods.is_terminal(pod) for each in self.old for pod in lister.by_index(BY_CONTROLLER, uid_of(each)))

    async def _finish(self) -> None:
        if status.is_complete(self.deployment, self.deployment.get("status") or {}):
            await self._drop_surplus()

    # Revisions

    async def _sync_revision(self, *, create: bool) -> None:
        """Find the new set, or make it; number it; and carry the number to the Deployment."""
        new = self._find_new()
        number = revisions.next_revision(self.old)
        if new is not None:
            await self._renumber(new, number)
        elif create:
            await self._create_new(number)

    async def _renumber(self, new: Object, number: int) -> None:
        changed = clone(new)
        min_ready = self.deployment["spec"].get("minReadySeconds") or 0
        stale = (changed["spec"].get("minReadySeconds") or 0) != min_ready
        if revisions.annotate(changed, self.deployment, number) or stale:
            changed["spec"]["minReadySeconds"] = min_ready
            await self._change_set(new, changed)
        assert self.new is not None
        await self._carry_revision(revisions.revision(self.new))
        if progress_deadline(self.deployment) is not None and get_condition(self.deployment, status.PROGRESSING) is None:
            text = f'Found new replica set "{name_of(new)}"'
            status.set_condition(self.deployment, status.PROGRESSING, "True", "FoundNewReplicaSet", text, self._now())

    async def _create_new(self, number: int) -> None:
        size = rollout.initial_size(self.deployment, self.sets, None)
        made = revisions.new_replica_set(self.deployment, number, size)
        try:
            created = await self._t.client.create(REPLICA_SETS, made, namespace_of(made))
            self._t.written_sets.note(key_of(self.deployment), created)
            fresh = True
        except StatusError as error:
            created = await self._after_failed_create(made, error)
            fresh = False
        self.sets.append(created)
        self.new = created
        if fresh and size > 0:
            self._event("ScalingReplicaSet", f"Scaled up replica set {name_of(created)} from 0 to {size}")
        await self._carry_revision(number)
        if fresh and progress_deadline(self.deployment) is not None:
            text = f'Created new replica set "{name_of(created)}"'
            status.set_condition(self.deployment, status.PROGRESSING, "True", "NewReplicaSetCreated", text, self._now())

    async def _after_failed_create(self, made: Object, error: StatusError) -> Object:
        """Ours already (the cache lagged): take it. Somebody else's: another hash next time. Else say why and raise."""
        if error.code == 409 and error.reason == "AlreadyExists":
            existing = await self._t.client.get(REPLICA_SETS, name_of(made), namespace_of(made))
            template = self.deployment["spec"]["template"]
            if is_controlled_by(existing, self.deployment) and revisions.same_template(existing["spec"]["template"], template):
                return existing
            held = self.deployment.setdefault("status", {})
            held["collisionCount"] = (held.get("collisionCount") or 0) + 1
            await self._store_status()
        elif not is_namespace_terminating(error):
            text = f'Failed to create new replica set "{name_of(made)}": {error.message}'
            if progress_deadline(self.deployment) is not None:
                status.set_condition(self.deployment, status.PROGRESSING, "False", "ReplicaSetCreateError", text, self._now())
                await self._store_status()
            self._event("ReplicaSetCreateError", text, kind="Warning")
        raise error

    async def _carry_revision(self, number: int) -> None:
        if revisions.revision(self.deployment) == number:
            return
        body = {"metadata": {"annotations": {REVISION: str(number)}, "uid": uid_of(self.deployment)}}
        patched = await self._t.client.patch(DEPLOYMENTS, name_of(self.deployment), body, namespace=namespace_of(self.deployment))
        self.deployment["metadata"] = patched["metadata"]
        self._t.written.note(key_of(self.deployment), patched)

    async def _drop_surplus(self) -> None:
        for each in revisions.surplus(self.deployment, self.old):
            try:
                await self._t.client.delete(REPLICA_SETS, name_of(each), namespace_of(each))
            except StatusError as error:
                if error.code != 404:
                    raise

    # Writing

    async def _resize(self, steps: Sequence[rollout.Resize]) -> None:
        for step in steps:
            before = wanted(step.replica_set)
            changed = clone(step.replica_set)
            changed["spec"]["replicas"] = step.replicas
            if not revisions.annotate_sizes(changed, self.deployment) and before == step.replicas:
                continue
            await self._change_set(step.replica_set, changed)
            if before != step.replicas:
                verb = "up" if step.replicas > before else "down"
                text = f"Scaled {verb} replica set {name_of(changed)} from {before} to {step.replicas}"
                self._event("ScalingReplicaSet", text)

    async def _change_set(self, held: Object, changed: Object) -> None:
        written = await write_spec(self._t.client, REPLICA_SETS, held, changed)
        self._t.written_sets.note(key_of(self.deployment), written)
        self._replace(written)

    async def _store_status(self) -> None:
        """Write this pass's status."""
        stored = {**self.deployment, "status": self._stored_status() or {}}
        status = self.deployment.get("status") or {}
        self.deployment = await write_status(self._t.client, DEPLOYMENTS, stored, status)
        self._t.written.note(key_of(self.deployment), self.deployment)

    def _replace(self, written: Object) -> None:
        uid = uid_of(written)
        self.sets = [written if uid_of(each) == uid else each for each in self.sets]
        if self.new is not None and uid_of(self.new) == uid:
            self.new = written

    def _event(self, reason: str, note: str, kind: str = "Normal") -> None:
        self._t.recorder.event(self.deployment, kind, reason, note, reason)

    async def _note_pause(self) -> None:
        """Being paused suspends the progress deadline."""
        words = status.pause_condition(self.deployment)
        if words is None:
            return
        status.set_condition(self.deployment, status.PROGRESSING, "Unknown", words[0], words[1], self._now())
        await self._store_status()

    async def _write_progress(self) -> float | None:
        return await self._write(status.progressed(self.deployment, self.new, self.sets, self._now()))

    async def _write(self, wanted_status: Object) -> float | None:
        stored = self._stored_status()
        if not same_status(stored, wanted_status):
            self.deployment["status"] = wanted_status
            await self._store_status()
        return status.next_look(self.deployment, wanted_status, self._now())

    def _stored_status(self) -> Mapping[str, Any] | None:
        """As the cache has it: this pass's copy may carry conditions that are not written yet."""
        cached = self._t.deployments.get(name_of(self.deployment), namespace_of(self.deployment))
        return None if cached is None else cached.get("status")

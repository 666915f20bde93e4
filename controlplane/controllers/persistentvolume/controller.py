"""persistentvolume_binder: the loop around ``plan`` and ``reclaim``. One queue for claims and volumes.

A volume that is about to be written counts as written at once (``client.assumed``), so that no two claims get the same one.
"""

from collections.abc import Iterable

from apimachinery.errors import StatusError
from apimachinery.gvk import GroupVersionResource
from apimachinery.meta import (
    Object,
    annotations_of,
    clone,
    is_deleting,
    key_of,
    make_key,
    name_of,
    namespace_of,
    set_annotation,
    uid_of,
)
from apimachinery.objects import volumes
from apimachinery.resources import PERSISTENT_VOLUME_CLAIMS as CLAIMS
from apimachinery.resources import PERSISTENT_VOLUMES as VOLUMES
from apimachinery.resources import PODS, STORAGE_CLASSES
from client.assumed import Assumed
from controlplane.controllers.controller import Environment, Loop
from controlplane.controllers.lib.pod_claims import BY_CLAIM, index_by_claim
from controlplane.controllers.persistentvolume import plan
from controlplane.controllers.persistentvolume.plan import Do, On, Told
from controlplane.controllers.persistentvolume.reclaim import Reclaimer, Templates, recycled_volume

_CLAIM, _VOLUME = "claim:", "volume:"
_BY_CLASS, _BY_CLAIM_REF, _BY_VOLUME, _WITHOUT_CLASS = "unbound-by-class", "claim-ref", "volume", "-"
_WAITING = (
    "Waiting for a volume to be created either by the external provisioner '{}' or manually by the system administrator. "
    "If volume creation is delayed, please verify that the provisioner is running and correctly registered."
)


class PersistentVolumeBinder:
    name = "persistentvolume-binder-controller"

    def __init__(self, env: Environment, templates: Templates | None = None, workers: int = 5) -> None:
        self._client = env.client
        self._recorder = env.recorders("persistentvolume-controller")
        self._claims, self._volumes = env.watch(CLAIMS), env.watch(VOLUMES)
        self._classes, self._pods = env.watch(STORAGE_CLASSES), env.watch(PODS)
        self._pods.add_index(BY_CLAIM, index_by_claim)
        self._claims.add_index(_BY_CLASS, _unbound_class)
        self._claims.add_index(_BY_VOLUME, _volume_named)
        self._volumes.add_index(_BY_CLAIM_REF, _claim_referred)
        self._held_claims, self._held_volumes = Assumed(self._claims), Assumed(self._volumes)
        self._reclaimer = Reclaimer(env.client, self._pods.lister, templates or {})
        self._loop = Loop(self.name, self.reconcile, env, workers)
        self._claims.add_handler(
            on_add=self._claim_seen, on_update=lambda old, new: self._claim_seen(new), on_delete=self._claim_gone
        )
        self._volumes.add_handler(
            on_add=self._volume_seen, on_update=lambda old, new: self._volume_seen(new), on_delete=self._volume_gone
        )
        self._classes.add_handler(on_add=self._class_seen, on_update=lambda old, new: self._class_seen(new))
        self._pods.add_handler(on_update=lambda old, new: self._scrubbed(new), on_delete=self._scrubbed)

    async def run(self) -> None:
        await self._loop.run()

    # What makes work

    def _claim_seen(self, claim: Object) -> None:
        self._loop.add(_CLAIM + key_of(claim))

    def _claim_gone(self, claim: Object) -> None:
        for volume in self._volumes.lister.by_index(_BY_CLAIM_REF, key_of(claim)):
            self._loop.add(_VOLUME + name_of(volume))

    def _volume_seen(self, volume: Object) -> None:
        self._loop.add(_VOLUME + name_of(volume))
        self._look_at_users(volume)
        if plan.phase_of(volume) == plan.AVAILABLE:
            self._look_at_class(volumes.class_of(volume) or _WITHOUT_CLASS)

    def _volume_gone(self, volume: Object) -> None:
        self._look_at_users(volume)

    def _look_at_users(self, volume: Object) -> None:
        for claim in self._claims.lister.by_index(_BY_VOLUME, name_of(volume)):
            self._loop.add(_CLAIM + key_of(claim))
        if key := volumes.claim_key(volume):
            self._loop.add(_CLAIM + key)

    def _class_seen(self, storage_class: Object) -> None:
        self._look_at_class(name_of(storage_class))
        self._look_at_class(_WITHOUT_CLASS)  # it may be the default now

    def _look_at_class(self, name: str) -> None:
        for claim in self._claims.lister.by_index(_BY_CLASS, name):
            self._loop.add(_CLAIM + key_of(claim))

    def _scrubbed(self, pod: Object) -> None:
        if name := recycled_volume(pod):
            self._loop.add(_VOLUME + name)

    async def reconcile(self, key: str) -> float | None:
        if key.startswith(_CLAIM):
            claim = self._held_claims.get(key.removeprefix(_CLAIM))
            if claim is not None:
                await self._claim(claim)
            return None
        volume = self._held_volumes.get(key.removeprefix(_VOLUME))
        return await self._volume(volume) if volume is not None else None

    # Claims

    async def _claim(self, claim: Object) -> None:
        if is_deleting(claim) and volumes.BIND_COMPLETED not in annotations_of(claim):
            return
        storage_class = self._classes.lister.get(volumes.class_of(claim)) if volumes.class_of(claim) else None
        named = self._held_volumes.get(volumes.volume_of(claim)) if volumes.volume_of(claim) else None
        if named is None and volumes.volume_of(claim):
            named = await self._fresh(VOLUMES, volumes.volume_of(claim))  # the cache may be younger here than there
        around = plan.Around(
            named=named,
            candidates=self._held_volumes.list,
            delayed=volumes.waits_for_pod(storage_class),
            default_class=volumes.default_class(self._classes.lister.list()) if volumes.names_no_class(claim) else "",
            pods=self._pods.lister.by_index(BY_CLAIM, key_of(claim)),
        )
        step = plan.next_for_claim(claim, around)
        if step.do is Do.BIND:
            assert step.volume is not None
            await self._bind(claim, step.volume)
        elif step.do is Do.SET_CLASS:
            changed = clone(claim)
            changed["spec"]["storageClassName"] = step.storage_class
            await self._write(CLAIMS, self._held_claims, changed)
        elif step.do is Do.LOSE:
            if plan.phase_of(claim) != plan.LOST:
                await self._claim_status(claim, {"phase": plan.LOST, "accessModes": None, "capacity": None})
                self._tell(claim, step.told)
        else:
            if step.do is Do.PROVISION:
                claim = await self._provision(claim, storage_class)
            self._tell(claim, step.told)
            if plan.phase_of(claim) != plan.PENDING:
                await self._claim_status(claim, {"phase": plan.PENDING, "accessModes": None, "capacity": None})

    async def _bind(self, claim: Object, volume: Object) -> None:
        """Both halves, each only where it is missing; the volume's first, which decides who gets it."""
        half = plan.volume_for_claim(volume, claim)
        if half is not None:
            volume = await self._write(VOLUMES, self._held_volumes, half)
        await self._phase(volume, plan.BOUND)
        half = plan.claim_for_volume(claim, volume)
        if half is not None:
            claim = await self._write(CLAIMS, self._held_claims, half)
        if status := plan.claim_status(claim, volume):
            await self._claim_status(claim, status)

    async def _provision(self, claim: Object, storage_class: Object | None) -> Object:
        """Tell the class's provisioner, through an annotation, that a volume is wanted."""
        if storage_class is None:
            missing = f'storageclass.storage.k8s.io "{volumes.class_of(claim)}" not found'
            self._tell(claim, Told(plan.WARNING, "ProvisioningFailed", missing))
            return claim
        provisioner = str(storage_class.get("provisioner") or "")
        if provisioner.startswith("kubernetes.io/"):
            self._tell(claim, Told(plan.WARNING, "ProvisioningFailed", f"no volume plugin matched name: {provisioner}"))
            return claim
        changed = clone(claim)
        for key in (volumes.BETA_PROVISIONER, volumes.PROVISIONER):
            set_annotation(changed, key, provisioner)
        if changed != claim:
            claim = await self._write(CLAIMS, self._held_claims, changed)
            self._tell(claim, Told(plan.NORMAL, "ExternalProvisioning", _WAITING.format(provisioner)))
        return claim

    # Volumes

    async def _volume(self, volume: Object) -> float | None:
        claim = await self._claim_of(volume)
        step = plan.next_for_volume(volume, claim)
        self._tell(volume, step.told)
        if claim is not None:
            self._tell(claim, step.told_claim)
        if step.phase:
            volume = await self._phase(volume, step.phase)
        if step.then is On.LOOK_AT_CLAIM:
            self._loop.add(_CLAIM + volumes.claim_key(volume))
        elif step.then is On.UNBIND:
            await self._free(volume)
        elif step.then is On.RECLAIM:
            return await self._reclaim(volume)
        return None

    async def _claim_of(self, volume: Object) -> Object | None:
        """Before a volume is called released, the API server is asked: the cache of claims may lag behind that of volumes."""
        reference = volumes.claim_ref(volume)
        if not reference or not reference.get("uid"):
            return None
        claim = self._held_claims.get(volumes.claim_key(volume))
        if (claim is None or uid_of(claim) != reference["uid"]) and plan.phase_of(volume) not in (plan.RELEASED, plan.FAILED):
            claim = await self._fresh(CLAIMS, str(reference["name"]), str(reference["namespace"]))
        return claim

    async def _reclaim(self, volume: Object) -> float | None:
        outcome = await self._reclaimer.reclaim(volume)
        if outcome.gone:
            return None
        if outcome.phase and plan.phase_of(volume) != outcome.phase:
            await self._phase(volume, outcome.phase, outcome.told.message if outcome.told else "")
        self._tell(volume, outcome.told)
        if outcome.free:
            await self._free(volume)
        return outcome.again

    async def _free(self, volume: Object) -> None:
        changed = plan.unbound(volume)
        if changed != volume:
            volume = await self._write(VOLUMES, self._held_volumes, changed)
        await self._phase(volume, plan.AVAILABLE)

    # Writing

    async def _write(self, resource: GroupVersionResource, held: Assumed, changed: Object) -> Object:
        held.intend(changed)
        try:
            written = await self._client.update(resource, changed)
        except BaseException:
            held.drop(key_of(changed))
            raise
        held.wrote(written)
        return written

    async def _phase(self, volume: Object, phase: str, message: str = "") -> Object:
        if plan.phase_of(volume) == phase:
            return volume
        body = {"metadata": {"uid": uid_of(volume)}, "status": {"phase": phase, "message": message or None, "reason": None}}
        written = await self._client.patch(VOLUMES, name_of(volume), body, subresource="status")
        self._held_volumes.wrote(written)
        return written

    async def _claim_status(self, claim: Object, status: Object) -> None:
        body = {"metadata": {"uid": uid_of(claim)}, "status": status}
        written = await self._client.patch(CLAIMS, name_of(claim), body, namespace=namespace_of(claim), subresource="status")
        self._held_claims.wrote(written)

    async def _fresh(self, resource: GroupVersionResource, name: str, namespace: str | None = None) -> Object | None:
        try:
            return await self._client.get(resource, name, namespace)
        except StatusError as error:
            if error.code == 404:
                return None
            raise

    def _tell(self, obj: Object, told: Told | None) -> None:
        if told is not None:
            self._recorder.event(obj, told.type, told.reason, told.message)


def _unbound_class(claim: Object) -> Iterable[str]:
    if volumes.BIND_COMPLETED not in annotations_of(claim):
        yield volumes.class_of(claim) or _WITHOUT_CLASS


def _volume_named(claim: Object) -> Iterable[str]:
    if name := volumes.volume_of(claim):
        yield name


def _claim_referred(volume: Object) -> Iterable[str]:
    reference = volumes.claim_ref(volume)
    if reference:
        yield make_key(reference.get("namespace"), str(reference.get("name") or ""))

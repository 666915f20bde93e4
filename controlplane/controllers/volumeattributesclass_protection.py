"""volumeattributesclass_protection: a class of volume attributes that is being deleted stays while claims or volumes name it.

The API server's StorageObjectInUseProtection sets the finalizer; here it is set on those from before, and taken away again.
"""

from collections.abc import Iterable

from apimachinery.meta import Object, add_finalizer, clone, has_finalizer, is_deleting, key_of, remove_finalizer
from apimachinery.resources import PERSISTENT_VOLUME_CLAIMS as CLAIMS
from apimachinery.resources import PERSISTENT_VOLUMES as VOLUMES
from apimachinery.resources import VOLUME_ATTRIBUTES_CLASSES as CLASSES
from controlplane.controllers.controller import Environment, Loop

FINALIZER = "kubernetes.io/vac-protection"
_BY_CLASS = "volume-attributes-class"


def classes_of_claim(claim: Object) -> list[str]:
    """The class that is wanted, the one in force, and the one that is on its way."""
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    on_its_way = (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName")
    return _distinct((spec.get("volumeAttributesClassName"), status.get("currentVolumeAttributesClassName"), on_its_way))


def classes_of_volume(volume: Object) -> list[str]:
    return _distinct(((volume.get("spec") or {}).get("volumeAttributesClassName"),))


def _distinct(names: Iterable[str | None]) -> list[str]:
    return sorted({name for name in names if name})


class VolumeAttributesClassProtection:
    """One loop over classes; woken by them and by whoever lets go of one."""

    name = "volumeattributesclass-protection-controller"

    def __init__(self, env: Environment) -> None:
        self._client = env.client
        self._classes, self._claims, self._volumes = env.watch(CLASSES), env.watch(CLAIMS), env.watch(VOLUMES)
        self._claims.add_index(_BY_CLASS, classes_of_claim)
        self._volumes.add_index(_BY_CLASS, classes_of_volume)
        self._loop = Loop(self.name, self.reconcile, env, workers=1)
        self._classes.add_handler(on_add=self._look, on_update=lambda old, new: self._look(new))
        self._claims.add_handler(
            on_update=lambda old, new: self._let_go(classes_of_claim(old), classes_of_claim(new)),
            on_delete=lambda claim: self._let_go(classes_of_claim(claim), ()),
        )
        self._volumes.add_handler(
            on_update=lambda old, new: self._let_go(classes_of_volume(old), classes_of_volume(new)),
            on_delete=lambda volume: self._let_go(classes_of_volume(volume), ()),
        )

    async def run(self) -> None:
        await self._loop.run()

    def _look(self, given: Object) -> None:
        if is_deleting(given) == has_finalizer(given, FINALIZER):  # set where it lacks, or in the way of a deletion
            self._loop.add(key_of(given))

    def _let_go(self, before: Iterable[str], after: Iterable[str]) -> None:
        for name in set(before) - set(after):
            self._loop.add(name)

    async def reconcile(self, key: str) -> float | None:
        cached = self._classes.lister.get_key(key)
        if cached is None:
            return None
        changed = clone(cached)
        if not is_deleting(cached):
            edited = add_finalizer(changed, FINALIZER)
        elif self._claims.lister.by_index(_BY_CLASS, key) or self._volumes.lister.by_index(_BY_CLASS, key):
            edited = False
        else:
            edited = remove_finalizer(changed, FINALIZER)
        if edited:
            await self._client.update(CLASSES, changed)
        return None

"""volume_expand: tells of claims that want to grow that an external resizer must see to it. No volume here grows by itself.

Upstream's controller expands in-tree volumes, of which none are left; what remains of it is this event.
"""

from apimachinery import quantity
from apimachinery.meta import Object
from apimachinery.objects import volumes
from apimachinery.resources import PERSISTENT_VOLUME_CLAIMS
from controlplane.controllers.controller import Environment, Loop


class VolumeExpander:
    name = "persistentvolume-expander-controller"

    def __init__(self, env: Environment) -> None:
        self._recorder = env.recorders("volume_expand")
        self._claims = env.watch(PERSISTENT_VOLUME_CLAIMS)
        self._loop = Loop(self.name, self.reconcile, env, workers=1)
        self._claims.add_handler(on_update=self._look)

    def _look(self, old: Object, new: Object) -> None:
        if volumes.requested_bytes(old) < volumes.requested_bytes(new):
            self._loop.add_object(new)

    async def run(self) -> None:
        await self._loop.run()

    async def reconcile(self, key: str) -> float | None:
        claim = self._claims.lister.get_key(key)
        if claim is not None and volumes.is_bound(claim) and wants_to_grow(claim):
            self._recorder.event(claim, "Normal", "ExternalExpanding", "waiting for an external controller to expand this PVC")
        return None


def wants_to_grow(claim: Object) -> bool:
    has = ((claim.get("status") or {}).get("capacity") or {}).get("storage")
    return has is not None and quantity.parse(has).value() < volumes.requested_bytes(claim)

"""volume_protection: a claim that is being deleted stays while a pod uses it, a volume while a claim is bound to it.

The API server's StorageObjectInUseProtection sets the finalizers; here they are taken away again.
"""

from apimachinery.meta import Object, clone, has_finalizer, is_deleting, key_of, namespace_of, remove_finalizer
from apimachinery.objects import pods
from apimachinery.resources import PERSISTENT_VOLUME_CLAIMS as CLAIMS
from apimachinery.resources import PERSISTENT_VOLUMES as VOLUMES
from apimachinery.resources import PODS
from controlplane.controllers.controller import Environment, Loop
from controlplane.controllers.lib.pod_claims import BY_CLAIM, claims_of, index_by_claim

CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER = "kubernetes.io/pv-protection"


def uses_claims(pod: Object) -> bool:
    """Only a pod that has a node and has not ended holds on to its claims."""
    return bool(pods.node_name(pod)) and not pods.is_terminal(pod)


class ClaimProtection:
    name = "persistentvolumeclaim-protection-controller"

    def __init__(self, env: Environment) -> None:
        self._client = env.client
        self._claims, self._pods = env.watch(CLAIMS), env.watch(PODS)
        self._pods.add_index(BY_CLAIM, index_by_claim)
        self._loop = Loop(self.name, self.reconcile, env, workers=2)
        self._claims.add_handler(on_add=self._look, on_update=lambda old, new: self._look(new))
        self._pods.add_handler(on_update=lambda old, new: self._let_go(new), on_delete=self._forget)

    def _look(self, claim: Object) -> None:
        if is_deleting(claim) and has_finalizer(claim, CLAIM_FINALIZER):
            self._loop.add_object(claim)

    def _let_go(self, pod: Object) -> None:
        if pods.is_terminal(pod):
            self._forget(pod)

    def _forget(self, pod: Object) -> None:
        for key in claims_of(pod):
            claim = self._claims.lister.get_key(key)
            if claim is not None:
                self._look(claim)

    async def run(self) -> None:
        await self._loop.run()

    async def reconcile(self, key: str) -> float | None:
        claim = self._claims.lister.get_key(key)
        if claim is None or not is_deleting(claim) or not has_finalizer(claim, CLAIM_FINALIZER):
            return None
        if any(uses_claims(pod) for pod in self._pods.lister.by_index(BY_CLAIM, key)):
            return None
        fresh = (await self._client.list(PODS, namespace_of(claim)))["items"]  # the cache may lag behind the scheduler
        if any(uses_claims(pod) and key in claims_of(pod) for pod in fresh):
            return None
        changed = clone(claim)
        remove_finalizer(changed, CLAIM_FINALIZER)
        await self._client.update(CLAIMS, changed)
        return None


class VolumeProtection:
    name = "persistentvolume-protection-controller"

    def __init__(self, env: Environment) -> None:
        self._client = env.client
        self._volumes = env.watch(VOLUMES)
        self._loop = Loop(self.name, self.reconcile, env, workers=1)
        self._volumes.add_handler(on_add=self._look, on_update=lambda old, new: self._look(new))

    def _look(self, volume: Object) -> None:
        if is_deleting(volume) and has_finalizer(volume, VOLUME_FINALIZER):
            self._loop.add(key_of(volume))

    async def run(self) -> None:
        await self._loop.run()

    async def reconcile(self, key: str) -> float | None:
        volume = self._volumes.lister.get_key(key)
        if volume is None or not is_deleting(volume) or (volume.get("status") or {}).get("phase") == "Bound":
            return None
        changed = clone(volume)
        if remove_finalizer(changed, VOLUME_FINALIZER):
            await self._client.update(VOLUMES, changed)
        return None

"""ephemeral_volume: makes the claim of every generic ephemeral volume; the pod owns it, so it goes with the pod."""

from collections.abc import Mapping
from typing import Any

from apimachinery.meta import Object, clone, is_deleting, make_key, name_of, namespace_of, owner_reference
from apimachinery.objects import pods, volumes
from apimachinery.resources import PERSISTENT_VOLUME_CLAIMS, PODS
from controlplane.controllers.controller import Environment, Loop
from controlplane.controllers.lib.pod_claims import BY_CLAIM, index_by_claim


class EphemeralVolumeController:
    name = "ephemeral-volume-controller"

    def __init__(self, env: Environment, workers: int = 5) -> None:
        self._client = env.client
        self._recorder = env.recorders("ephemeral_volume")
        self._pods, self._claims = env.watch(PODS), env.watch(PERSISTENT_VOLUME_CLAIMS)
        self._pods.add_index(BY_CLAIM, index_by_claim)
        self._loop = Loop(self.name, self.reconcile, env, workers)
        self._pods.add_handler(on_add=self._look, on_update=lambda old, new: self._look(new))
        self._claims.add_handler(on_delete=self._claim_gone)

    def _look(self, pod: Object) -> None:
        if _ephemeral(pod) and not is_deleting(pod) and not pods.is_terminal(pod):
            self._loop.add_object(pod)

    def _claim_gone(self, claim: Object) -> None:
        for pod in self._pods.lister.by_index(BY_CLAIM, make_key(namespace_of(claim), name_of(claim))):
            self._look(pod)

    async def run(self) -> None:
        await self._loop.run()

    async def reconcile(self, key: str) -> float | None:
        pod = self._pods.lister.get_key(key)
        if pod is None or is_deleting(pod):
            return None
        for volume in _ephemeral(pod):
            claim = self._claims.lister.get(volumes.claim_name(pod, volume), namespace_of(pod))
            try:
                if claim is None:
                    await self._client.create(PERSISTENT_VOLUME_CLAIMS, claim_for(pod, volume))
                elif problem := volumes.not_of_pod(pod, claim):
                    raise ValueError(problem)
            except Exception as error:
                self._recorder.event(pod, "Warning", "FailedBinding", f"ephemeral volume {volume['name']}: {error}")
                raise
        return None


def claim_for(pod: Object, volume: Mapping[str, Any]) -> Object:
    """The claim that the volume's template describes. Pure."""
    template = clone(volume["ephemeral"].get("volumeClaimTemplate") or {})
    metadata = template.get("metadata") or {}
    owner = owner_reference(pod, "v1", "Pod")
    kept = {field: metadata[field] for field in ("labels", "annotations") if metadata.get(field)}
    own = {"name": volumes.claim_name(pod, volume), "namespace": namespace_of(pod), "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {**kept, **own}, "spec": template.get("spec") or {}}


def _ephemeral(pod: Object) -> list[Mapping[str, Any]]:
    return [volume for volume in (pod.get("spec") or {}).get("volumes") or () if volume.get("ephemeral") is not None]

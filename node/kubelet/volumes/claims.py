"""From a claim in a pod to the PersistentVolume behind it, or the reason why it cannot be used (yet). Called by ``manager``.

The words are those of upstream's ``desired_state_of_world_populator``, as they stand in the event ``FailedMount``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.meta import is_deleting, namespace_of
from apimachinery.objects import pods, volumes
from node.kubelet.interface import ObjectSource, Pod, VolumeError


@dataclass(frozen=True, slots=True)
class Persistent:
    """A claim and its volume, bound to each other."""

    claim: Mapping[str, Any]
    volume: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Of the PersistentVolume, by which its directories are called."""
        return str(self.volume["metadata"]["name"])

    @property
    def is_block(self) -> bool:
        return volumes.mode_of(self.volume) == "Block"


async def resolve(objects: ObjectSource, pod: Pod, entry: Mapping[str, Any], *, started: bool) -> Persistent | None:
    """What a volume of a pod stands for; None for volumes without a claim. ``started``: the pod has it mounted already.

    Raises VolumeError.
    """
    name = volumes.claim_name(pod, entry)
    if not name:
        return None
    namespace = namespace_of(pod) or "default"
    try:
        return await _resolve(objects, pod, entry, namespace, name, started)
    except _NotYetError as error:
        volume = entry["name"]
        raise VolumeError(
            f"Unable to attach or mount volumes: unmounted volumes=[{volume}], unattached volumes=[], "
            f"failed to process volumes=[{volume}]: error processing PVC {namespace}/{name}: {error}"
        ) from error


class _NotYetError(Exception):
    pass


async def _resolve(
    objects: ObjectSource, pod: Pod, entry: Mapping[str, Any], namespace: str, name: str, started: bool
) -> Persistent:
    try:
        claim = await objects.claim(namespace, name)
    except StatusError as error:
        raise _NotYetError(f"failed to fetch PVC from API server: {error.message}") from error
    if is_deleting(claim) and not started:
        raise _NotYetError("PVC is being deleted")
    if entry.get("ephemeral") is not None and (problem := volumes.not_of_pod(pod, claim)):
        raise _NotYetError(problem)
    if (claim.get("status") or {}).get("phase") != "Bound" or not volumes.volume_of(claim):
        raise _NotYetError("PVC is not bound")
    wanted = volumes.volume_of(claim)
    try:
        volume = await objects.volume(wanted)
    except StatusError as error:
        raise _NotYetError(f"failed to fetch PV {wanted} from API server: {error.message}") from error
    reference = volumes.claim_ref(volume)
    if not reference:
        raise _NotYetError(f"PV {wanted} is not bound: found nil pv.Spec.ClaimRef")
    if reference.get("uid") != claim["metadata"].get("uid"):
        held, expected = reference.get("uid"), claim["metadata"].get("uid")
        raise _NotYetError(f"pv.Spec.ClaimRef.UID {held} does not match the expected UID {expected}")
    return Persistent(claim, volume)


def check_mode(pod: Pod, name: str, persistent: Persistent) -> None:
    """A device is no directory. Raises VolumeError for a pod that takes one for the other."""
    for container in pods.all_containers(pod):
        mounted = any(each["name"] == name for each in container.get("volumeMounts") or ())
        raw = any(each["name"] == name for each in container.get("volumeDevices") or ())
        if persistent.is_block and mounted:
            raise VolumeError(f"volume {name} has volumeMode Block, but is specified in volumeMounts")
        if not persistent.is_block and raw:
            raise VolumeError(f"volume {name} has volumeMode Filesystem, but is specified in volumeDevices")

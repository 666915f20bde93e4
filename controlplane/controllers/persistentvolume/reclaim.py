"""What becomes of a released volume: kept, deleted by whom it belongs to, or scrubbed by a pod. ``controller`` calls it.

Volumes that an external provisioner made are left to it. Of the others only hostPath below /tmp can be deleted from here,
as upstream's built-in deleter does it for clusters of one machine. Recycling is upstream's old way: a pod mounts the volume
and empties it.
"""

import asyncio
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apimachinery import errors
from apimachinery.meta import Object, annotations_of, clone, name_of, namespace_of, uid_of
from apimachinery.objects import pods as pod_questions
from apimachinery.objects import volumes
from apimachinery.resources import PERSISTENT_VOLUMES, PODS
from client.lister import Lister
from client.rest import Client
from controlplane.controllers.lib.pod_claims import BY_CLAIM
from controlplane.controllers.persistentvolume.plan import FAILED, NORMAL, WARNING, Told, phase_of, reclaim_policy

_DELETABLE = re.compile(r"^/tmp/.+")
_RECYCLER_NAMESPACE, _RECYCLER_PREFIX = "default", "recycler-for-"
_RECYCLER_IMAGE = "registry.k8s.io/build-image/debian-base:bookworm-v1.0.6"
_SCRUB = 'test -e /scrub && find /scrub -mindepth 1 -delete && test -z "$(ls -A /scrub)" || exit 1'
_LEAST_SECONDS = {"hostPath": 60, "nfs": 300}
_SECONDS_PER_GIB = 30
_LOOK_AGAIN = 15.0

Templates = Mapping[str, Object]
"""Recycler pods of the administrator's own, by kind of volume source: ``hostPath``, ``nfs``."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """``phase`` to set (empty: none), what to tell; ``free``: the volume may be used again; ``again``: look then."""

    phase: str = ""
    told: Told | None = None
    free: bool = False
    gone: bool = False
    again: float | None = None


@dataclass(frozen=True, slots=True)
class Reclaimer:
    client: Client
    pods: Lister
    templates: Templates

    async def reclaim(self, volume: Object) -> Outcome:
        """Take the next step. ``volume`` has lost its claim for good."""
        policy = reclaim_policy(volume)
        if volumes.MIGRATED_TO in annotations_of(volume) or policy == "Retain":
            return Outcome()
        if policy == "Delete":
            return await self._delete(volume)
        if policy == "Recycle":
            return await self._recycle(volume)
        text = "Volume has unrecognized PersistentVolumeReclaimPolicy"
        return Outcome(FAILED, Told(WARNING, "VolumeUnknownReclaimPolicy", text))

    async def _delete(self, volume: Object) -> Outcome:
        provisioner = annotations_of(volume).get(volumes.PROVISIONED_BY, "")
        if provisioner and not provisioner.startswith("kubernetes.io/"):
            return Outcome()
        if users := self._users(volume):
            return Outcome(told=Told(NORMAL, "VolumeFailedDelete", f"Volume is used by pods: {users}"), again=_LOOK_AGAIN)
        kind, source = volumes.source_of(volume)
        try:
            if kind != "hostPath":
                text = f'error getting deleter volume plugin for volume "{name_of(volume)}": no deletable volume plugin matched'
                raise ValueError(text)
            await asyncio.to_thread(delete_directory, str(source.get("path") or ""))
        except (OSError, ValueError) as error:
            return Outcome(FAILED, Told(WARNING, "VolumeFailedDelete", str(error)), again=_LOOK_AGAIN)
        await self.client.delete(PERSISTENT_VOLUMES, name_of(volume), preconditions={"uid": uid_of(volume)})
        return Outcome(gone=True)

    async def _recycle(self, volume: Object) -> Outcome:
        kind, _ = volumes.source_of(volume)
        if kind not in _LEAST_SECONDS:
            return Outcome(FAILED, Told(WARNING, "VolumeFailedRecycle", "No recycler plugin found for the volume!"))
        if phase_of(volume) == FAILED:
            return Outcome()
        if users := self._users(volume):
            return Outcome(told=Told(NORMAL, "VolumeFailedRecycle", f"Volume is used by pods: {users}"), again=_LOOK_AGAIN)
        pod = self.pods.get(_RECYCLER_PREFIX + name_of(volume), _RECYCLER_NAMESPACE)
        if pod is None:
            try:
                await self.client.create(PODS, recycler_pod(volume, self.templates.get(kind)))
            except errors.StatusError as error:
                if error.reason != "AlreadyExists":
                    raise
            return Outcome()
        phase = phase_of(pod)
        if phase not in ("Succeeded", "Failed"):
            return Outcome()
        await self.client.delete(PODS, name_of(pod), namespace_of(pod), preconditions={"uid": uid_of(pod)})
        if phase == "Succeeded":
            return Outcome(told=Told(NORMAL, "VolumeRecycled", "Volume recycled"), free=True)
        message = (pod.get("status") or {}).get("message") or "pod failed, pod.Status.Message unknown."
        return Outcome(FAILED, Told(WARNING, "VolumeFailedRecycle", f"Recycle failed: {message}"))

    def _users(self, volume: Object) -> str:
        users = [pod for pod in self.pods.by_index(BY_CLAIM, volumes.claim_key(volume)) if not pod_questions.is_terminal(pod)]
        return ",".join(f"{namespace_of(pod)}/{name_of(pod)}" for pod in users)


def recycled_volume(pod: Object) -> str:
    """The volume that a pod scrubs; empty for all other pods."""
    name = name_of(pod)
    return (
        name.removeprefix(_RECYCLER_PREFIX)
        if namespace_of(pod) == _RECYCLER_NAMESPACE and name.startswith(_RECYCLER_PREFIX)
        else ""
    )


def recycler_pod(volume: Object, template: Object | None = None) -> Object:
    """The pod that empties a volume. Of a template everything stays but the name and the first volume's source. Pure."""
    kind, source = volumes.source_of(volume)
    pod = clone(template) if template is not None else _default_pod()
    pod.setdefault("metadata", {}).update(name=_RECYCLER_PREFIX + name_of(volume), namespace=_RECYCLER_NAMESPACE)
    held = pod["spec"].setdefault("volumes", [{"name": "vol"}])
    held[0] = {"name": held[0].get("name") or "vol", kind: dict(source)}
    gibibytes = volumes.capacity_bytes(volume) // 2**30
    pod["spec"]["activeDeadlineSeconds"] = max(_LEAST_SECONDS[kind], _SECONDS_PER_GIB * gibibytes)
    return pod


def _default_pod() -> dict[str, Any]:
    container = {
        "name": "pv-recycler",
        "image": _RECYCLER_IMAGE,
        "command": ["/bin/sh"],
        "args": ["-c", _SCRUB],
        "volumeMounts": [{"name": "vol", "mountPath": "/scrub"}],
    }
    spec = {"restartPolicy": "Never", "volumes": [{"name": "vol"}], "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": spec}


def delete_directory(path: str) -> None:
    """Raises ValueError for what lies outside of /tmp, OSError for what cannot be deleted. Missing is fine."""
    if not _DELETABLE.match(os.path.normpath(path)):
        raise ValueError(f"host_path deleter only supports /tmp/.+ but received provided {path}")
    target = Path(os.path.normpath(path))
    # everybody may put links into /tmp: none on the way may lead out of it
    if not _DELETABLE.match(os.path.realpath(target.parent) + "/" + target.name):
        raise ValueError(f"host_path deleter only supports /tmp/.+ but {path} leads to {os.path.realpath(target)}")
    if target.is_symlink() or target.is_file():
        target.unlink()
    elif target.exists():
        shutil.rmtree(target)

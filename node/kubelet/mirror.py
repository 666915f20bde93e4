"""Mirror pods: the API server's images of static pods, so that people and schedulers can see them.

The static pod is the truth: a mirror that is missing is made, one that differs, is being deleted or has no static pod goes.
``kubelet.py`` runs :class:`MirrorPods`; the pod manager tells it which mirrors the API has, the status manager asks it
under which name the status of a static pod is to be sent.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.meta import annotation, is_deleting, key_of, name_of, namespace_of, uid_of
from apimachinery.objects.pods import MIRROR_ANNOTATION
from apimachinery.resources import NODES, PODS
from client.rest import Client
from component import logs
from component.clock import Clock
from node.kubelet.sources.static_pods import HASH_ANNOTATION, is_static

_PERIOD = 10.0
_log = logs.get(__name__)

Pod = Mapping[str, Any]


class MirrorPods:
    """See the module. ``resend(static pod, status of its mirror)`` is called when a mirror appears or changes."""

    def __init__(self, client: Client, clock: Clock, node_name: str) -> None:
        self._client = client
        self._clock = clock
        self._node_name = node_name
        self.resend: Callable[[Pod, Mapping[str, Any]], object] = lambda pod, held: None
        self._static: dict[str, Pod] = {}
        self._mirrors: dict[str, Pod] = {}
        self._wake = asyncio.Event()

    def static_changed(self, pod: Pod) -> None:
        self._static[key_of(pod)] = pod
        self._wake.set()

    def static_removed(self, pod: Pod) -> None:
        if self._static.get(key_of(pod)) is pod:
            del self._static[key_of(pod)]
        self._wake.set()

    def mirror_changed(self, mirror: Pod) -> None:
        """The API has (changed) a mirror."""
        self._mirrors[key_of(mirror)] = mirror
        static = self._static.get(key_of(mirror))
        if static is not None and is_mirror_of(mirror, static):
            self.resend(static, mirror.get("status") or {})
        self._wake.set()

    def mirror_removed(self, uid: str) -> bool:
        """Whether the uid that is gone from the API was a mirror's."""
        for key, mirror in self._mirrors.items():
            if uid_of(mirror) == uid:
                del self._mirrors[key]
                self._wake.set()
                return True
        return False

    def reported_as(self, pod: Pod) -> Pod | None:
        """The pod under whose name and uid a status is sent: for a static pod its mirror, or None while it has none."""
        if not is_static(pod):
            return pod
        mirror = self._mirrors.get(key_of(pod))
        return mirror if mirror is not None and is_mirror_of(mirror, pod) and not is_deleting(mirror) else None

    async def run(self) -> None:
        """Bring the API's mirrors into line, at each change and every ten seconds, until cancelled."""
        while True:
            self._wake.clear()
            await self._reconcile()
            timer = self._clock.call_later(_PERIOD, self._wake.set)
            await self._wake.wait()
            timer.cancel()

    async def _reconcile(self) -> None:
        for key in {*self._static, *self._mirrors}:
            static, mirror = self._static.get(key), self._mirrors.get(key)
            try:
                if mirror is not None and (static is None or not is_mirror_of(mirror, static) or is_deleting(mirror)):
                    await self._delete(mirror)
                elif static is not None and mirror is None:
                    await self._create(static)
            except (StatusError, OSError) as error:
                _log.warning("Cannot bring a mirror pod into line", pod=key, err=error)

    async def _create(self, static: Pod) -> None:
        try:
            made = await self._client.create(PODS, mirror_of(static, await self._owner()))
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
        else:
            self.mirror_changed({"apiVersion": "v1", "kind": "Pod", **made})

    async def _delete(self, mirror: Pod) -> None:
        uid = {"uid": uid_of(mirror)}
        try:
            await self._client.delete(PODS, name_of(mirror), namespace_of(mirror), grace=0, preconditions=uid)
        except StatusError as error:
            if error.code not in (404, 409):
                raise
        self._mirrors.pop(key_of(mirror), None)
        self._wake.set()

    async def _owner(self) -> dict[str, Any] | None:
        try:
            node = await self._client.get(NODES, self._node_name)
        except StatusError:
            return None
        return {"apiVersion": "v1", "kind": "Node", "name": self._node_name, "uid": uid_of(node), "controller": True}


def mirror_of(static: Pod, owner: Mapping[str, Any] | None) -> dict[str, Any]:
    """What is created in the API for a static pod. Pure."""
    metadata = {key: value for key, value in static["metadata"].items() if key != "uid"}
    metadata["annotations"] = {**metadata["annotations"], MIRROR_ANNOTATION: annotation(static, HASH_ANNOTATION)}
    if owner is not None:
        metadata["ownerReferences"] = [dict(owner)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": static["spec"]}


def is_mirror_of(mirror: Pod, static: Pod) -> bool:
    return annotation(mirror, MIRROR_ANNOTATION) == annotation(static, HASH_ANNOTATION)

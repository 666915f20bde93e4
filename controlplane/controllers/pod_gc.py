"""pod_gc: removes pods that nobody else will: finished ones beyond a limit, and those whose node is gone."""

import heapq
from collections.abc import Iterable

from apimachinery.errors import StatusError
from apimachinery.meta import Object, clone, creation_time, is_deleting, key_of, name_of, namespace_of, set_condition, uid_of
from apimachinery.objects import pods
from apimachinery.resources import NODES, PODS
from controlplane.controllers.controller import Environment, Loop

QUARANTINE_SECONDS = 40.0
"""A node that was deleted by mistake and registers again within this time keeps its pods."""
_SWEEP = "#finished"
_NODE = "#node/"


def beyond_limit(finished: Iterable[Object], limit: int) -> list[Object]:
    """The oldest finished pods that are too many; a limit of 0 or less keeps all."""
    listed = list(finished)
    if limit <= 0 or len(listed) <= limit:
        return []
    return heapq.nsmallest(len(listed) - limit, listed, key=lambda pod: (str(creation_time(pod)), key_of(pod)))


class PodGCController:
    """One loop whose keys are pods to look at, nodes that went, and the sweep of finished pods."""

    name = "pod-garbage-collector-controller"

    def __init__(self, env: Environment, limit: int = 12500) -> None:
        self._client, self._clock, self._limit = env.client, env.clock, limit
        self._finished = 0
        self._pods = env.watch(PODS)
        self._nodes = env.watch(NODES)
        self._loop = Loop(self.name, self.reconcile, env, workers=2)
        self._pods.add_handler(on_add=self._look, on_update=lambda old, new: self._look(new))
        self._pods.add_handler(on_add=lambda pod: self._count(1), on_delete=lambda pod: self._count(-1), where=pods.is_terminal)
        self._nodes.add_handler(on_delete=lambda node: self._loop.add_after(_NODE + name_of(node), QUARANTINE_SECONDS))

    async def run(self) -> None:
        for name in {pods.node_name(pod) for pod in self._pods.lister.list()} - {""}:
            if self._nodes.lister.get(name) is None:
                self._loop.add_after(_NODE + name, QUARANTINE_SECONDS)
        await self._loop.run()

    def _look(self, pod: Object) -> None:
        if is_deleting(pod) and not pods.node_name(pod):
            self._loop.add_object(pod)

    def _count(self, change: int) -> None:
        self._finished += change
        if 0 < self._limit < self._finished:
            self._loop.add(_SWEEP)

    async def reconcile(self, key: str) -> float | None:
        if key == _SWEEP:
            for pod in beyond_limit(filter(pods.is_terminal, self._pods.lister.list()), self._limit):
                await self._remove(pod)
        elif key.startswith(_NODE):
            await self._clear_node(key.removeprefix(_NODE))
        else:
            held = self._pods.lister.get_key(key)
            if held is not None and is_deleting(held) and not pods.node_name(held):
                await self._remove(held)
        return None

    async def _clear_node(self, name: str) -> None:
        if self._nodes.lister.get(name) is not None:
            return
        try:
            await self._client.get(NODES, name)  # the cache may lag; pods are not removed on its word alone
            return
        except StatusError as error:
            if error.code != 404:
                raise
        for pod in self._pods.lister.find(lambda pod: pods.node_name(pod) == name):
            await self._remove(pod, "PodGC: node no longer exists")

    async def _remove(self, pod: Object, disruption: str = "") -> None:
        try:
            if not pods.is_terminal(pod) and disruption:
                changed = clone(pod)
                changed["status"]["phase"] = "Failed"
                set_condition(
                    changed, "DisruptionTarget", "True", now=self._clock.now(), reason="DeletionByPodGC", message=disruption
                )
                await self._client.update_status(PODS, changed)
            await self._client.delete(PODS, name_of(pod), namespace_of(pod), grace=0, preconditions={"uid": uid_of(pod)})
        except StatusError as error:
            if error.code != 404:
                raise

"""ttl: tells nodes, by an annotation, how long their kubelets may keep Secrets and ConfigMaps before they ask again.

The more nodes, the longer. Bounds overlap, so that a cluster on the edge does not write to all of its nodes again and again.
"""

from apimachinery.meta import Object, annotation, name_of
from apimachinery.resources import NODES
from client.rest import STRATEGIC
from controlplane.controllers.controller import Environment, Loop

ANNOTATION = "node.alpha.kubernetes.io/ttl"
_STEPS = ((0, 100, 0), (90, 500, 15), (450, 1000, 30), (900, 2000, 60), (1800, 10_000, 300), (9000, 2**31 - 1, 600))
"""Least and greatest number of nodes, seconds."""


def step_for(nodes: int, step: int) -> int:
    """The step for that many nodes, coming from ``step``."""
    while nodes > _STEPS[step][1]:
        step += 1
    while nodes < _STEPS[step][0]:
        step -= 1
    return step


def seconds_of(step: int) -> int:
    return _STEPS[step][2]


class TTLController:
    """One loop over nodes; all of them are looked at again when the step changes."""

    name = "ttl-controller"

    def __init__(self, env: Environment, workers: int = 5) -> None:
        self._client = env.client
        self._nodes = env.watch(NODES)
        self._step = 0
        self._loop = Loop(self.name, self.reconcile, env, workers)
        self._nodes.add_handler(on_add=self._came, on_update=self._updated, on_delete=self._went)

    async def run(self) -> None:
        await self._loop.run()

    def _came(self, node: Object) -> None:
        self._count()
        self._loop.add_object(node)

    def _updated(self, old: Object, new: Object) -> None:
        if annotation(new, ANNOTATION) != annotation(old, ANNOTATION):
            self._loop.add_object(new)

    def _went(self, node: Object) -> None:
        self._count()

    def _count(self) -> None:
        step = step_for(len(self._nodes.lister), self._step)
        if step != self._step:
            self._step = step
            for each in self._nodes.lister.list():
                self._loop.add_object(each)

    async def reconcile(self, key: str) -> float | None:
        node = self._nodes.lister.get_key(key)
        wanted = str(seconds_of(self._step))
        if node is not None and annotation(node, ANNOTATION) != wanted:
            await self._client.patch(NODES, name_of(node), {"metadata": {"annotations": {ANNOTATION: wanted}}}, STRATEGIC)
        return None

"""taint_eviction: deletes pods that do not tolerate, or no longer tolerate, their node's ``NoExecute`` taints."""

from datetime import datetime, timedelta

from apimachinery.errors import StatusError
from apimachinery.meta import Object, clone, is_deleting, key_of, name_of, namespace_of, set_condition, uid_of
from apimachinery.objects import nodes, pods, taints
from apimachinery.resources import NODES, PODS
from apimachinery.times import parse_time
from controlplane.controllers.controller import Environment, Loop
from controlplane.controllers.lib.node_health import executing

BY_NODE = "node"


def node_index(pod: Object) -> list[str]:
    name = pods.node_name(pod)
    return [name] if name else []


def eviction_time(node: Object, pod: Object, now: datetime) -> datetime | None:
    """When the pod must go, or None. Tolerated seconds count from when the taint was added."""
    evicting = executing(nodes.taints(node))
    tolerations = pods.spec_of(pod).get("tolerations") or ()
    moments = []
    for taint in evicting:
        delay = taints.eviction_delay([taint], tolerations)
        if delay is None:
            continue
        since = parse_time(taint["timeAdded"]) if taint.get("timeAdded") else now
        moments.append(since + timedelta(seconds=delay))
    return min(moments, default=None)


class TaintEvictionController:
    """One loop over pods that run on tainted nodes."""

    name = "taint-eviction-controller"

    def __init__(self, env: Environment, workers: int = 8) -> None:
        self._client, self._clock = env.client, env.clock
        self._recorder = env.recorders(self.name)
        self._nodes = env.watch(NODES)
        self._pods = env.watch(PODS)
        self._pods.add_index(BY_NODE, node_index)
        self._untimed: dict[str, datetime] = {}  # first sight of pods under taints without a time
        self._loop = Loop(self.name, self.reconcile, env, workers)
        self._nodes.add_handler(on_add=self._node_changed, on_update=self._node_updated)
        self._pods.add_handler(on_add=self._pod_changed, on_update=self._pod_updated, on_delete=self._pod_gone)

    async def run(self) -> None:
        await self._loop.run()

    def _node_changed(self, node: Object) -> None:
        if executing(nodes.taints(node)):
            self._wake(node)

    def _node_updated(self, old: Object, new: Object) -> None:
        if executing(nodes.taints(old)) != executing(nodes.taints(new)):
            self._wake(new)

    def _wake(self, node: Object) -> None:
        for pod in self._pods.lister.by_index(BY_NODE, name_of(node)):
            self._loop.add_object(pod)

    def _pod_changed(self, pod: Object) -> None:
        node = self._nodes.lister.get(pods.node_name(pod)) if pods.node_name(pod) else None
        if node is not None and executing(nodes.taints(node)):
            self._loop.add_object(pod)

    def _pod_updated(self, old: Object, new: Object) -> None:
        moved = pods.node_name(old) != pods.node_name(new)
        if moved or pods.spec_of(old).get("tolerations") != pods.spec_of(new).get("tolerations"):
            self._pod_changed(new)

    def _pod_gone(self, pod: Object) -> None:
        self._untimed.pop(uid_of(pod), None)

    async def reconcile(self, key: str) -> float | None:
        pod = self._pods.lister.get_key(key)
        node = self._nodes.lister.get(pods.node_name(pod)) if pod is not None else None
        if pod is None or node is None or is_deleting(pod) or pods.is_terminal(pod):
            return None
        now = self._clock.now()
        first = self._untimed.setdefault(uid_of(pod), now)
        moment = eviction_time(node, pod, first)
        if moment is None:
            del self._untimed[uid_of(pod)]
            return None
        if moment > now:
            return (moment - now).total_seconds() + 0.05
        await self._evict(pod)
        return None

    async def _evict(self, pod: Object) -> None:
        self._recorder.event(pod, "Normal", "TaintManagerEviction", f"Marking for deletion Pod {key_of(pod)}")
        changed = clone(pod)
        text = "Taint manager: deleting due to NoExecute taint"
        set_condition(changed, "DisruptionTarget", "True", now=self._clock.now(), reason="DeletionByTaintManager", message=text)
        try:
            await self._client.update_status(PODS, changed)
            await self._client.delete(PODS, name_of(pod), namespace_of(pod), preconditions={"uid": uid_of(pod)})
        except StatusError as error:
            if error.code != 404:
                raise

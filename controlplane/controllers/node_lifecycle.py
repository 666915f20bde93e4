"""node_lifecycle: notices nodes whose kubelet fell silent, and keeps the taints that say how every node does.

A heartbeat is a renewed lease or a new status; when one was last *seen here* is what counts, so the clocks of nodes do
not matter. No polling: each node has one timer, which on expiry looks how much of the grace period is left.
"""

from collections.abc import Mapping
from typing import Any

from apimachinery.errors import StatusError
from apimachinery.meta import Object, clone, condition_status, get_condition, name_of, set_condition, uid_of
from apimachinery.objects import nodes, pods
from apimachinery.resources import LEASES, NODES, PODS
from controlplane.controllers.controller import Environment, Loop
from controlplane.controllers.lib.node_health import mark_unknown, next_taints


class NodeLifecycleController:
    """One loop over nodes."""

    name = "node-lifecycle-controller"

    def __init__(self, env: Environment, grace: float = 50.0, startup_grace: float = 60.0, workers: int = 4) -> None:
        self._client, self._clock = env.client, env.clock
        self._grace, self._startup_grace = grace, startup_grace
        self._recorder = env.recorders("node-controller")
        self._seen: dict[str, float] = {}
        self._fell: set[str] = set()  # nodes that stopped being ready, their pods not yet marked
        self._nodes = env.watch(NODES)
        self._pods = env.watch(PODS)
        leases = env.informers.informer(LEASES, namespace=nodes.LEASE_NAMESPACE)
        self._loop = Loop(self.name, self.reconcile, env, workers)
        self._nodes.add_handler(on_add=self._added, on_update=self._updated, on_delete=self._deleted)
        leases.add_handler(on_add=self._renewed, on_update=self._lease_updated)

    async def run(self) -> None:
        await self._loop.run()

    def _beat(self, name: str) -> None:
        self._seen[name] = self._clock.monotonic()

    def _added(self, node: Object) -> None:
        self._beat(name_of(node))
        self._loop.add_object(node)
        text = f"Node {name_of(node)} event: Registered Node {name_of(node)} in Controller"
        self._recorder.event(node, "Normal", "RegisteredNode", text)

    def _updated(self, old: Object, new: Object) -> None:
        if _heartbeats(old) != _heartbeats(new):
            self._beat(name_of(new))
        if condition_status(old, "Ready") == "True" != condition_status(new, "Ready"):
            self._fell.add(name_of(new))
        if _judged(old) != _judged(new):
            self._loop.add_object(new)

    def _deleted(self, node: Object) -> None:
        self._seen.pop(name_of(node), None)
        self._fell.discard(name_of(node))
        text = f"Node {name_of(node)} event: Removing Node {name_of(node)} from Controller"
        self._recorder.event(node, "Normal", "RemovingNode", text)

    def _renewed(self, lease: Object) -> None:
        self._beat(name_of(lease))
        node = self._nodes.lister.get(name_of(lease))
        if node is not None and condition_status(node, "Ready") == "Unknown":
            self._loop.add_object(node)

    def _lease_updated(self, old: Object, new: Object) -> None:
        if (old.get("spec") or {}).get("renewTime") != (new.get("spec") or {}).get("renewTime"):
            self._renewed(new)

    async def reconcile(self, key: str) -> float | None:
        cached = self._nodes.lister.get(key)
        if cached is None:
            return None
        node = clone(cached)
        grace = self._grace if get_condition(node, "Ready") is not None else self._startup_grace
        left = self._seen.get(key, 0.0) + grace - self._clock.monotonic()
        if left <= 0 and mark_unknown(node, self._clock.now()):
            try:
                node = await self._client.update_status(NODES, node)
            except ConnectionError:
                self._beat(key)  # it is the API server that is silent, and no kubelet can reach it either
                raise
        changed = next_taints(node, self._clock.now())
        if changed is not None:
            body = {"metadata": {"uid": uid_of(node), "resourceVersion": node["metadata"]["resourceVersion"]}}
            await self._client.patch(NODES, key, {**body, "spec": {"taints": changed}})
        if key in self._fell:
            if condition_status(node, "Ready") != "True":
                await self._mark_pods(node)
            self._fell.discard(key)
        # A silent node is looked at again when it speaks.
        return left + 0.1 if left > 0 else None

    async def _mark_pods(self, node: Object) -> None:
        """Pods of a node that is not ready answer for no Service."""
        ready_pods = self._pods.lister.find(lambda pod: pods.node_name(pod) == name_of(node) and pods.is_ready(pod))
        if ready_pods:
            text = f"Node {name_of(node)} status is now: NodeNotReady"
            self._recorder.event(node, "Normal", "NodeNotReady", text)
        for pod in ready_pods:
            changed = clone(pod)
            set_condition(changed, "Ready", "False", now=self._clock.now(), reason="NodeNotReady", message="")
            try:
                await self._client.update_status(PODS, changed)
            except StatusError as error:
                if error.code not in (404, 409):
                    raise
                continue
            self._recorder.event(changed, "Warning", "NodeNotReady", "Node is not ready")


def _heartbeats(node: Mapping[str, Any]) -> list[Any]:
    """What only the kubelet writes."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return [(each.get("type"), each.get("lastHeartbeatTime")) for each in conditions]


def _judged(node: Mapping[str, Any]) -> Any:
    """What conditions and taints follow from."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return [(each.get("type"), each.get("status")) for each in conditions], nodes.taints(node), nodes.is_unschedulable(node)

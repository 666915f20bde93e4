"""From informers to the cache and the queue: what every change means for pods that run and for pods that wait."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from apimachinery.meta import Object, is_deleting, labels_of, name_of, uid_of
from apimachinery.objects import nodes, pods
from apimachinery.objects.requests import pod_requests
from client.informer import Informer
from controlplane.scheduler.cache import Cache
from controlplane.scheduler.framework.events import Action, ClusterEvent, On
from controlplane.scheduler.framework.types import PodInfo
from controlplane.scheduler.queue import SchedulingQueue

Responsible = Callable[[Object], SchedulingQueue | None]
"""The queue of the profile that schedules a pod, or None for other schedulers' pods."""


class Handlers:
    """Registers itself with the informers; every method is an informer's handler."""

    def __init__(self, cache: Cache, queues: Iterable[SchedulingQueue], responsible: Responsible) -> None:
        self._cache = cache
        self._queues = list(queues)
        self._responsible = responsible

    def register(self, all_pods: Informer, all_nodes: Informer, namespaces: Informer) -> None:
        all_nodes.add_handler(on_add=self.node_added, on_update=self.node_updated, on_delete=self.node_deleted)
        namespaces.add_handler(
            on_add=self._cache.set_namespace, on_update=self.namespace_updated, on_delete=self.namespace_deleted
        )
        all_pods.add_handler(
            on_add=self.assigned_added, on_update=self.assigned_updated, on_delete=self.assigned_deleted, where=is_assigned
        )
        all_pods.add_handler(on_add=self.pending_added, on_update=self.pending_updated, on_delete=self.pending_deleted,
                             where=is_pending)  # fmt: skip

    def tell(self, event: ClusterEvent) -> None:
        for queue in self._queues:
            queue.happened(event)

    # Nodes

    def node_added(self, node: Object) -> None:
        self._cache.set_node(node)
        self.tell(ClusterEvent(On.NODE, Action.ADD, None, node))

    def node_updated(self, old: Object, new: Object) -> None:
        actions = node_changes(old, new)
        if actions is None:
            return  # a heartbeat
        self._cache.set_node(new)
        if actions:
            self.tell(ClusterEvent(On.NODE, actions, old, new))

    def node_deleted(self, node: Object) -> None:
        self._cache.remove_node(name_of(node))
        self.tell(ClusterEvent(On.NODE, Action.DELETE, node, None))

    # Namespaces matter only to affinity terms that select them by label

    def namespace_updated(self, old: Object, new: Object) -> None:
        self._cache.set_namespace(new)

    def namespace_deleted(self, namespace: Object) -> None:
        self._cache.remove_namespace(name_of(namespace))

    # Pods that have a node

    def assigned_added(self, pod: Object) -> None:
        """Also a binding of ours coming back, which changes nothing that was not assumed already."""
        mine = self._cache.is_assumed(uid_of(pod))
        self._cache.set_pod(pod)
        queue = self._responsible(pod)
        if queue is not None:
            queue.delete(uid_of(pod))
        if not mine or labels_of(pod):
            self.tell(ClusterEvent(On.ASSIGNED_POD, Action.ADD, None, pod))

    def assigned_updated(self, old: Object, new: Object) -> None:
        actions = pod_changes(old, new)
        self._cache.set_pod(new)
        if actions:
            self.tell(ClusterEvent(On.ASSIGNED_POD, actions, old, new))

    def assigned_deleted(self, pod: Object) -> None:
        self._cache.remove_pod(uid_of(pod))
        self.tell(ClusterEvent(On.ASSIGNED_POD, Action.DELETE, pod, None))

    # Pods that wait for one

    def pending_added(self, pod: Object) -> None:
        queue = self._responsible(pod)
        if queue is None or self._cache.holds(uid_of(pod)):
            return
        nominated = (pod.get("status") or {}).get("nominatedNodeName")
        if nominated:
            self._cache.nominate(PodInfo(pod), nominated)
        queue.add(pod)

    def pending_updated(self, old: Object, new: Object) -> None:
        queue = self._responsible(new)
        if queue is not None and not self._cache.is_assumed(uid_of(new)):
            queue.update(old, new)

    def pending_deleted(self, pod: Object) -> None:
        """Gone, bound, finished, or on its way out."""
        self._cache.unnominate(uid_of(pod))
        queue = self._responsible(pod)
        if queue is not None:
            queue.delete(uid_of(pod))


def is_assigned(pod: Object) -> bool:
    """Takes room on a node."""
    return bool(pods.node_name(pod)) and not pods.is_terminal(pod)


def is_pending(pod: Object) -> bool:
    """Wants a node."""
    return not pods.node_name(pod) and not pods.is_terminal(pod) and not is_deleting(pod)


def node_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> Action | None:
    """What changed that a pod may wait for. None if the update was nothing but a heartbeat."""
    found = Action(0)
    if labels_of(old) != labels_of(new):
        found |= Action.UPDATE_LABELS
    if nodes.taints(old) != nodes.taints(new):
        found |= Action.UPDATE_TAINTS
    if nodes.is_unschedulable(old) != nodes.is_unschedulable(new):
        found |= Action.UPDATE_UNSCHEDULABLE
    if (old.get("status") or {}).get("allocatable") != (new.get("status") or {}).get("allocatable"):
        found |= Action.UPDATE_ALLOCATABLE
    if found or (old.get("status") or {}).get("images") != (new.get("status") or {}).get("images"):
        return found
    return None


def pod_changes(old: Object, new: Object) -> Action:
    """What changed on a running pod that others may wait for."""
    found = Action(0)
    if labels_of(old) != labels_of(new):
        found |= Action.UPDATE_LABELS
    if old["spec"].get("containers") != new["spec"].get("containers") and pod_requests(old) != pod_requests(new):
        found |= Action.UPDATE_REQUESTS
    return found

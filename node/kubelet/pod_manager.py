"""The wanted pods of this node, by uid and by name, from all sources; tells the workers what changed.

Sources call :func:`update` and :func:`remove`. A pod that the node cannot take is handed to its worker as failed.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from apimachinery.meta import is_deleting, key_of, make_key, uid_of
from apimachinery.objects import pods
from node.kubelet import admission
from node.kubelet.mirror import MirrorPods
from node.kubelet.pod_status import Failure
from node.kubelet.pod_workers import PodWorkers
from node.kubelet.recorder import PodEvents
from node.kubelet.sources.static_pods import is_static
from node.kubelet.status import StatusManager

Pod = Mapping[str, Any]

_MEANT = ("labels", "annotations", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


class PodManager:
    """See the module."""

    def __init__(
        self,
        workers: PodWorkers,
        status: StatusManager,
        events: PodEvents,
        allocatable: Callable[[], Mapping[str, str]],
        mirrors: MirrorPods | None = None,
        node: Callable[[], Mapping[str, Any] | None] = lambda: None,
        pressures: Callable[[], Sequence[str]] = tuple,
        closed: Callable[[], tuple[str, str] | None] = lambda: None,
        allocated: Callable[[Pod], Pod] = lambda pod: pod,
        forbidden: Callable[[Pod], tuple[str, str] | None] = lambda pod: None,
        managed: Callable[[], Collection[str]] = tuple,
    ) -> None:
        """``closed`` says why (reason, message) no pod at all is let in, or None, ``forbidden`` why a certain one is not;
        ``allocated`` shows a pod with what it has been given, which counts; ``managed`` are the resources that the device
        manager gives away."""
        self._workers = workers
        self._status = status
        self._events = events
        self._allocatable = allocatable
        self._mirrors = mirrors
        self._node = node
        self._pressures = pressures
        self._closed = closed
        self._allocated = allocated
        self._forbidden = forbidden
        self._managed = managed
        self._by_uid: dict[str, Pod] = {}
        self._by_name: dict[str, str] = {}

    def pods(self) -> list[Pod]:
        return list(self._by_uid.values())

    def get(self, uid: str) -> Pod | None:
        return self._by_uid.get(uid)

    def by_name(self, namespace: str, name: str) -> Pod | None:
        """The pod of that name; of two (one ending, one new) the newer."""
        return self._by_uid.get(self._by_name.get(make_key(namespace, name), ""))

    def update(self, pod: Pod) -> None:
        """A pod is new or has changed. Changes of nothing but its status are only compared with ours."""
        if pods.is_mirror(pod) and self._mirrors is not None:
            self._mirrors.mirror_changed(pod)  # only an image: what runs is the static pod
            return
        if is_static(pod) and self._mirrors is not None:
            self._mirrors.static_changed(pod)
        uid = uid_of(pod)
        before = self._by_uid.get(uid)
        self._by_uid[uid], self._by_name[key_of(pod)] = pod, uid
        if before is not None:
            self._status.reconcile(pod)
            if not _meant_differently(before, pod):
                return
        refused = None
        if before is None and not pods.is_terminal(pod) and not is_deleting(pod) and not self._runs(pod):
            refused = self._closed() or self._forbidden(pod)
            refused = refused or admission.refuse(
                pod, self.taken(uid), self._allocatable(), self._node(), self._pressures(), self._managed()
            )
        self._workers.update(pod)
        if refused is not None:
            self._events.warning(pod, refused[0], refused[1].removeprefix("Pod was rejected: "))
            self._workers.evict(uid, Failure(*refused, rejected=True))

    def remove(self, uid: str) -> None:
        """A pod is gone from its source."""
        if self._mirrors is not None and self._mirrors.mirror_removed(uid):
            return
        pod = self._by_uid.pop(uid, None)
        if pod is not None and is_static(pod) and self._mirrors is not None:
            self._mirrors.static_removed(pod)
        if pod is not None and self._by_name.get(key_of(pod)) == uid:
            del self._by_name[key_of(pod)]
        self._workers.remove(uid)

    def _runs(self, pod: Pod) -> bool:
        """It was taken before, by this kubelet or its predecessor: never refuse what runs."""
        status = pod.get("status") or {}
        return bool(status.get("startTime")) or self._workers.knows(uid_of(pod))

    def active(self) -> list[Pod]:
        """Pods that run or may run here."""
        return [pod for pod in self.pods() if not pods.is_terminal(pod) and not self._workers.terminating(uid_of(pod))]

    def taken(self, uid: str) -> list[Pod]:
        """The pods beside that one, with what they have been given."""
        others = (pod for other, pod in self._by_uid.items() if other != uid and not self._workers.terminating(other))
        return [self._allocated(pod) for pod in others]


def _meant_differently(before: Pod, after: Pod) -> bool:
    """Something changed that a worker acts upon: the spec, what identifies or ends the pod, a readiness gate."""
    if before.get("spec") != after.get("spec"):
        return True
    old, new = before["metadata"], after["metadata"]
    if any(old.get(key) != new.get(key) for key in _MEANT):
        return True
    gates = {gate["conditionType"] for gate in pods.spec_of(after).get("readinessGates") or ()}
    return bool(gates) and _gate_states(before, gates) != _gate_states(after, gates)


def _gate_states(pod: Pod, gates: set[str]) -> dict[str, str]:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return {each["type"]: each.get("status", "") for each in conditions if each.get("type") in gates}

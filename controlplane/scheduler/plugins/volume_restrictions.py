"""VolumeRestrictions: a claim for one pod (ReadWriteOncePod) is used by one pod. A less important user can be preempted."""

from collections.abc import Sequence
from typing import ClassVar

from apimachinery.meta import Object, namespace_of
from apimachinery.objects import volumes
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.events import Action, ClusterEvent, Cure, On
from controlplane.scheduler.framework.interface import Cluster
from controlplane.scheduler.framework.status import SKIP, Status, unschedulable
from controlplane.scheduler.framework.storage import Storage, is_claim_of
from controlplane.scheduler.framework.types import NodeInfo, PodInfo

TAKEN = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"


class Users:
    """The claims that only one pod may use, and who uses them now."""

    def __init__(self, claims: frozenset[str], pods: dict[str, PodInfo]) -> None:
        self.claims, self.pods = claims, pods

    def clone(self) -> "Users":
        return Users(self.claims, dict(self.pods))


class VolumeRestrictions:
    name: ClassVar[str] = "VolumeRestrictions"
    local: ClassVar[bool] = False

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def cures(self) -> Sequence[Cure]:
        return [
            Cure(On.ASSIGNED_POD, Action.DELETE, _shares_a_claim),
            Cure(On.CLAIM, Action.ADD | Action.UPDATE_OTHER, is_claim_of),
        ]

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> tuple[Status | None, frozenset[str] | None]:
        exclusive = set()
        for key in pod.claims:
            claim = self._storage.claim(pod.namespace, key.rpartition("/")[2])
            if claim is not None and "ReadWriteOncePod" in volumes.access_modes(claim):
                exclusive.add(key)
        if not exclusive:
            return SKIP, None
        users = {user.uid: user for key in exclusive for user in cluster.users_of(key) if user.uid != pod.uid}
        state.write(self.name, Users(frozenset(exclusive), users))
        return None, None

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> None:
        users: Users = state.read(self.name)
        if users.claims & set(other.claims):
            users.pods[other.uid] = other

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> None:
        users: Users = state.read(self.name)
        users.pods.pop(other.uid, None)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        users: Users = state.read(self.name)
        return unschedulable(self.name, TAKEN) if users.pods else None


def _shares_a_claim(pod: PodInfo, event: ClusterEvent) -> bool:
    gone = event.old
    return gone is None or any(_key(gone, volume) in pod.claims for volume in gone["spec"].get("volumes") or ())


def _key(pod: Object, volume: Object) -> str:
    return f"{namespace_of(pod)}/{volumes.claim_name(pod, volume)}"

"""VolumeZone: a volume that is labelled with a zone or a region is used there only. Newer volumes say it by node affinity."""

from collections.abc import Sequence
from typing import ClassVar

from apimachinery.meta import labels_of
from apimachinery.objects import volumes
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.events import Action, Cure, On
from controlplane.scheduler.framework.interface import Cluster
from controlplane.scheduler.framework.status import SKIP, Status, unresolvable
from controlplane.scheduler.framework.storage import Storage, is_claim_of
from controlplane.scheduler.framework.types import NodeInfo, PodInfo

NO_ZONE = "node(s) had no available volume zone"
_BETA = "failure-domain.beta.kubernetes.io"
_KEYS = (f"{_BETA}/zone", f"{_BETA}/region", "topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_SEPARATOR = "__"
"""Volumes in several zones list them in one label."""


class VolumeZone:
    name: ClassVar[str] = "VolumeZone"
    local: ClassVar[bool] = False

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def cures(self) -> Sequence[Cure]:
        changed = Action.ADD | Action.UPDATE_OTHER
        return [
            Cure(On.NODE, Action.ADD | Action.UPDATE_LABELS),
            Cure(On.CLAIM, changed, is_claim_of),
            Cure(On.VOLUME, changed),
            Cure(On.STORAGE_CLASS, Action.ADD),
        ]

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> tuple[Status | None, frozenset[str] | None]:
        wanted: list[tuple[str, frozenset[str]]] = []
        for key in pod.claims:
            claim = self._storage.claim(pod.namespace, key.rpartition("/")[2])
            if claim is None:
                continue  # VolumeBinding says so
            volume = self._storage.volume(volumes.volume_of(claim)) if volumes.volume_of(claim) else None
            held = labels_of(volume) if volume is not None else {}
            wanted += [(label, frozenset(held[label].split(_SEPARATOR))) for label in _KEYS if label in held]
        if not wanted:
            return SKIP, None
        state.write(self.name, wanted)
        return None, None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """A node without any such label is in a cluster of one zone."""
        if not any(key in node.labels for key in _KEYS):
            return None
        wanted: list[tuple[str, frozenset[str]]] = state.read(self.name)
        for key, allowed in wanted:
            held = node.labels.get(key)
            if held is None and key.startswith(_BETA):
                held = node.labels.get(key.replace(_BETA, "topology.kubernetes.io"))
            if held not in allowed:
                return unresolvable(self.name, NO_ZONE)
        return None

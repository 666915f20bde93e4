"""NodeVolumeLimits: a node takes no more volumes of a CSI driver than the driver said there (CSINode) that it can."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import ClassVar

from apimachinery.objects import volumes
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.events import Action, ClusterEvent, Cure, On
from controlplane.scheduler.framework.interface import Cluster
from controlplane.scheduler.framework.status import SKIP, Status, unschedulable
from controlplane.scheduler.framework.storage import Storage
from controlplane.scheduler.framework.types import NodeInfo, PodInfo

FULL = "node(s) exceed max volume count"


class NodeVolumeLimits:
    name: ClassVar[str] = "NodeVolumeLimits"
    local: ClassVar[bool] = False

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def cures(self) -> Sequence[Cure]:
        return [
            Cure(On.CSI_NODE, Action.ADD | Action.UPDATE_OTHER),
            Cure(On.ASSIGNED_POD, Action.DELETE, _had_claims),
            Cure(On.CLAIM, Action.ADD),
        ]

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: Cluster) -> tuple[Status | None, frozenset[str] | None]:
        return (None, None) if pod.claims else (SKIP, None)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        wanted = self._handles([pod])
        limits = self._limits(node.name) if wanted else {}
        if not any(driver in limits for driver in wanted):
            return None
        held = self._handles(other for other in node.pods.values() if other.claims)
        for driver, handles in wanted.items():
            limit = limits.get(driver)
            new = handles - held[driver]
            if limit is not None and new and len(held[driver]) + len(new) > limit:
                return unschedulable(self.name, FULL)
        return None

    def _limits(self, node: str) -> dict[str, int]:
        drivers = ((self._storage.csi_node(node) or {}).get("spec") or {}).get("drivers") or ()
        counts = {str(each.get("name")): (each.get("allocatable") or {}).get("count") for each in drivers}
        return {name: int(count) for name, count in counts.items() if count is not None}

    def _handles(self, pods: Iterable[PodInfo]) -> dict[str, set[str]]:
        """The volumes of pods by driver; one that is yet to be made counts by its claim."""
        found: dict[str, set[str]] = defaultdict(set)
        for pod in pods:
            for key in pod.claims:
                claim = self._storage.claim(pod.namespace, key.rpartition("/")[2])
                if claim is None:
                    continue
                volume = self._storage.volume(volumes.volume_of(claim)) if volumes.volume_of(claim) else None
                if volume is not None:
                    kind, source = volumes.source_of(volume)
                    if kind == "csi":
                        found[str(source.get("driver"))].add(str(source.get("volumeHandle")))
                    continue
                storage_class = self._storage.storage_class(volumes.class_of(claim))
                if storage_class is not None:
                    found[str(storage_class.get("provisioner"))].add(f"claim {key}")
        return found


def _had_claims(pod: PodInfo, event: ClusterEvent) -> bool:
    gone = event.old
    return gone is None or any(volumes.claim_name(gone, volume) for volume in gone["spec"].get("volumes") or ())

"""SchedulingGates: a pod with gates is not even queued until they are all removed. Asked by the queue (PreEnqueue)."""

from collections.abc import Sequence
from typing import ClassVar

from controlplane.scheduler.framework.events import Action, Cure, On
from controlplane.scheduler.framework.status import Status, unresolvable
from controlplane.scheduler.framework.types import PodInfo


class SchedulingGates:
    name: ClassVar[str] = "SchedulingGates"

    def cures(self) -> Sequence[Cure]:
        return [Cure(On.PENDING_POD, Action.UPDATE_GATES)]

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        gates = [str(gate.get("name")) for gate in (pod.pod.get("spec") or {}).get("schedulingGates") or ()]
        if not gates:
            return None
        return unresolvable(self.name, f"waiting for scheduling gates: [{' '.join(gates)}]")

"""``kubectl get pods``: readiness, the one-word status that sums up a pod, and its restarts."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apimachinery.meta import condition_status, get_condition
from apimachinery.objects.pods import is_sidecar, is_terminal, pod_ips
from apimachinery.times import parse_time
from controlplane.apiserver.kinds.shared.columns import AGE, NAME, NONE, age_of, wide
from controlplane.apiserver.registry.printing import human_duration
from controlplane.apiserver.registry.strategy import Column

Object = Mapping[str, Any]

COLUMNS = (
    NAME,
    Column("Ready", description="The aggregate readiness state of this pod for accepting traffic."),
    Column("Status", description="The aggregate status of the containers in this pod."),
    Column(
        "Restarts",
        description="The number of times the containers in this pod have been restarted and when the last container in this "
        "pod has restarted.",
    ),
    AGE,
    wide("IP", "Primary address of the pod; empty until one is assigned."),
    wide("Node", "The node the pod is bound to."),
    wide("Nominated Node", "The node that preemption makes room on for this pod."),
    wide("Readiness Gates", "How many of the conditions that gate readiness hold."),
)
_COMPLETED = {"type": "Completed", "status": "True"}
COMPLETED: Mapping[str, tuple[dict[str, Any], ...]] = {  # by phase
    "Succeeded": ({**_COMPLETED, "reason": "Succeeded", "message": "The pod has completed successfully."},),
    "Failed": ({**_COMPLETED, "reason": "Failed", "message": "The pod failed."},),
}


@dataclass(slots=True)
class _Restarts:
    """Restart counts added up, and when the last one ended."""

    count: int = 0
    last: str = ""

    def add(self, status: Object) -> None:
        self.count += int(status.get("restartCount") or 0)
        ended = ((status.get("lastState") or {}).get("terminated") or {}).get("finishedAt") or ""
        self.last = max(self.last, ended)  # RFC 3339 in UTC sorts as text

    def text(self, now: datetime) -> str:
        if not self.count or not self.last:
            return str(self.count)
        return f"{self.count} ({human_duration((now - parse_time(self.last)).total_seconds())} ago)"


def pod_row(pod: Object, now: datetime) -> list[Any]:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    sidecars = {one.get("name") for one in spec.get("initContainers") or () if is_sidecar(one)}
    reason, ready, restarts = _summary(pod, spec, status, sidecars)
    total = len(spec.get("containers") or ()) + len(sidecars)
    ips = pod_ips(pod)
    return [
        pod["metadata"]["name"],
        f"{ready}/{total}",
        reason,
        restarts.text(now),
        age_of(pod, now),
        ips[0] if ips else NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _gates(pod, spec),
    ]


def _summary(pod: Object, spec: Object, status: Object, sidecars: set[Any]) -> tuple[str, int, _Restarts]:
    reason = status.get("reason") or status.get("phase") or ""
    scheduled = get_condition(pod, "PodScheduled")
    if scheduled and scheduled.get("reason") == "SchedulingGated":
        reason = "SchedulingGated"
    init_reason, ready, all_restarts, restarts = _initialization(spec, status, sidecars)
    if init_reason:
        reason = init_reason
    if init_reason and condition_status(pod, "Initialized") != "True":
        restarts = all_restarts
    else:
        reason, running = _containers(status, reason, restarts)
        ready += running
        if reason == "Completed" and running:
            reason = "Running" if condition_status(pod, "Ready") == "True" else "NotReady"
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif not is_terminal(pod):
            reason = "Terminating"
    return reason, ready, restarts


def _initialization(spec: Object, status: Object, sidecars: set[Any]) -> tuple[str, int, _Restarts, _Restarts]:
    """(why initialisation is not over, ready sidecars, restarts of all init containers seen, restarts of sidecars)."""
    total = len(spec.get("initContainers") or ())
    ready = 0
    everything, of_sidecars = _Restarts(), _Restarts()
    for position, one in enumerate(status.get("initContainerStatuses") or ()):
        everything.add(one)
        sidecar = one.get("name") in sidecars
        if sidecar:
            of_sidecars.add(one)
        state = one.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if sidecar and one.get("started"):
            ready += bool(one.get("ready"))
            continue
        if terminated is not None:
            reason = "Init:" + _ended(terminated)
        elif waiting.get("reason") not in (None, "", "PodInitializing"):
            reason = "Init:" + waiting["reason"]
        else:
            reason = f"Init:{position}/{total}"
        return reason, ready, everything, of_sidecars
    return "", ready, everything, of_sidecars


def _ended(terminated: Object) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    return f"Signal:{terminated['signal']}" if terminated.get("signal") else f"ExitCode:{terminated.get('exitCode', 0)}"


def _containers(status: Object, reason: str, restarts: _Restarts) -> tuple[str, int]:
    """(reason, running and ready containers); of several reasons the first container's stands, hence the backward walk."""
    running = 0
    for one in reversed(status.get("containerStatuses") or ()):
        restarts.add(one)
        state = one.get("state") or {}
        waiting, terminated = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif terminated is not None:
            reason = _ended(terminated)
        elif one.get("ready") and state.get("running") is not None:
            running += 1
    return reason, running


def _gates(pod: Object, spec: Object) -> str:
    gates = spec.get("readinessGates") or ()
    if not gates:
        return NONE
    held = sum(condition_status(pod, gate.get("conditionType", "")) == "True" for gate in gates)
    return f"{held}/{len(gates)}"

"""DefaultPreemption: which pods of lower priority must go, and where, so that the pod fits. Pure; ``scheduler`` acts.

Called when no node fits. For each node where removing pods can help: take all lower pods away, see whether the pod fits
then, and put back as many as possible, the most important first. Of all nodes the one is chosen that loses least.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from apimachinery.meta import is_deleting
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.interface import Cluster, FilterExtensions
from controlplane.scheduler.framework.status import Code, Status
from controlplane.scheduler.framework.types import NodeInfo, PodInfo

Judge = Callable[[CycleState, NodeInfo], Status | None]
"""All filters of the profile, for the one pod, on a changed copy of a node."""
_ENOUGH = 100
_PART = 10  # percent of the nodes


@dataclass(frozen=True, slots=True)
class Preemption:
    """Deleting ``victims`` makes room on ``node``."""

    node: str
    victims: tuple[PodInfo, ...]


def ineligible(pod: PodInfo, cluster: Cluster) -> str | None:
    """Why the pod may not preempt at all; None if it may."""
    spec, status = pod.pod.get("spec") or {}, pod.pod.get("status") or {}
    if spec.get("preemptionPolicy") == "Never":
        return "not eligible due to preemptionPolicy=Never."
    nominated = cluster.node(str(status.get("nominatedNodeName") or ""))
    if nominated is not None and any(
        is_deleting(other.pod) and other.priority < pod.priority for other in nominated.pods.values()
    ):
        return "not eligible due to a terminating pod on the nominated node."
    return None


def find(
    pod: PodInfo,
    cluster: Cluster,
    state: CycleState,
    statuses: Mapping[str, Status],
    judge: Judge,
    extensions: Sequence[FilterExtensions],
) -> Preemption | str:
    """The best preemption, or upstream's sentence on why there is none."""
    why_not = ineligible(pod, cluster)
    if why_not is not None:
        return f"preemption: {why_not}"
    total = cluster.node_count()
    limit = max(_ENOUGH, total * _PART // 100)
    found: list[Preemption] = []
    reasons: Counter[str] = Counter()
    for node in cluster.nodes():
        status = statuses.get(node.name)
        if status is None or status.code is not Code.UNSCHEDULABLE:
            reasons["Preemption is not helpful for scheduling"] += 1
            continue
        victims = select_victims(pod, node, state, judge, extensions)
        if not victims:
            reasons["No preemption victims found for incoming pod"] += 1
            continue
        found.append(Preemption(node.name, tuple(victims)))
        if len(found) >= limit:
            break
    if found:
        return min(found, key=_cost)
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    return f"preemption: 0/{total} nodes are available: {listed}."


def select_victims(
    pod: PodInfo, node: NodeInfo, state: CycleState, judge: Judge, extensions: Sequence[FilterExtensions]
) -> list[PodInfo]:
    """The fewest and least important pods to remove from the node; empty if that does not help."""
    lower = [other for other in node.pods.values() if other.priority < pod.priority]
    if not lower:
        return []
    trial, trial_state = node.clone(), state.clone()

    def take(other: PodInfo) -> None:
        trial.remove(other.uid)
        for each in extensions:
            each.remove_pod(trial_state, pod, other, trial)

    def put(other: PodInfo) -> None:
        trial.add(other)
        for each in extensions:
            each.add_pod(trial_state, pod, other, trial)

    for other in lower:
        take(other)
    if judge(trial_state, trial) is not None:
        return []
    victims = []
    for other in sorted(lower, key=_importance):
        put(other)
        if judge(trial_state, trial) is not None:
            take(other)
            victims.append(other)
    return victims


def _importance(pod: PodInfo) -> tuple[int, str]:
    """Most important first: higher priority, then longer running."""
    return -pod.priority, started(pod)


def started(pod: PodInfo) -> str:
    """When the pod began to run; pods that have not begun count as youngest. RFC 3339 sorts as text."""
    return str((pod.pod.get("status") or {}).get("startTime") or "9999")


def _cost(candidate: Preemption) -> tuple[object, ...]:
    """Smallest is best: lowest highest priority, lowest sum of priorities, fewest victims, then the youngest of the highest."""
    priorities = [victim.priority for victim in candidate.victims]
    highest = max(priorities)
    eldest = min(started(victim) for victim in candidate.victims if victim.priority == highest)
    # Priorities may be negative: shifted, so that more victims never make a smaller sum.
    return highest, sum(priority + 2**31 for priority in priorities), len(priorities), _Descending(eldest)


class _Descending(str):
    """Text that sorts the other way round."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)

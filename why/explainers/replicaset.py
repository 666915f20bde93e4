"""ReplicaSets and ReplicationControllers: pods that cannot be made, or are not ready."""

from apimachinery.meta import Object, is_deleting, namespace_of
from apimachinery.objects import pods
from why.cause import Cause, Explanation, State
from why.explainers.deletion import terminating
from why.explainers.workload import create_failures, not_observed, pod_causes
from why.snapshot import Snapshot
from why.words import subject


def explain(snapshot: Snapshot, obj: Object) -> Explanation:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    wanted = int(spec["replicas"]) if spec.get("replicas") is not None else 1
    ready, available = int(status.get("readyReplicas") or 0), int(status.get("availableReplicas") or 0)
    summary = f"{ready} of {wanted} pods ready"
    if is_deleting(obj):
        return terminating(obj)
    owned = snapshot.owned(obj, "Pod")
    unseen = not_observed(snapshot, obj)
    if ready >= wanted and available >= wanted and not unseen:
        surplus = int(status.get("replicas") or 0) > wanted
        state = State.WAITING if surplus else State.WELL
        more = (Cause("it has more pods than it wants, and is deleting some"),) if surplus else ()
        return Explanation(subject(obj), namespace_of(obj), state, summary, more)
    failures = create_failures(snapshot, obj)
    below, broken = pod_causes(snapshot, [pod for pod in owned if not pods.is_terminal(pod)])
    causes = [*unseen, *failures, *below]
    if ready >= wanted > available:
        causes.append(Cause(f"ready pods count as available after minReadySeconds {spec.get('minReadySeconds') or 0}"))
    if not causes:
        causes.append(_not_made(snapshot, obj, wanted, owned))
    stuck = bool(unseen or failures or broken)
    return Explanation(subject(obj), namespace_of(obj), State.UNWELL if stuck else State.WAITING, summary, tuple(causes))


def _not_made(snapshot: Snapshot, obj: Object, wanted: int, owned: list[Object]) -> Cause:
    if not snapshot.covers("Pod", namespace_of(obj)):
        return Cause("its pods may not be read", step="run this as somebody who may list pods in its namespace")
    if len(owned) < wanted:
        says = f"{wanted - len(owned)} of its pods have not been created yet, and no failure has been told"
        return Cause(says, step="if this lasts, check that the controller manager runs")
    return Cause("its pods are ready, and the controller has not counted them yet")

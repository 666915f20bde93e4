"""PodDisruptionBudgets that let nothing go, so that a drain waits for ever."""

from apimachinery.meta import Object, get_condition, is_deleting, namespace_of
from why.budgets import selected
from why.cause import Cause, Explanation, State
from why.explainers.deletion import remaining
from why.explainers.workload import pod_causes
from why.snapshot import Snapshot
from why.words import condition_text, plural, subject


def explain(snapshot: Snapshot, obj: Object) -> Explanation:
    state, summary, causes = _judge(snapshot, obj)
    return Explanation(subject(obj), namespace_of(obj), state, summary, tuple(causes))


def _judge(snapshot: Snapshot, obj: Object) -> tuple[State, str, list[Cause]]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    allowed, healthy = int(status.get("disruptionsAllowed") or 0), int(status.get("currentHealthy") or 0)
    desired, expected = int(status.get("desiredHealthy") or 0), int(status.get("expectedPods") or 0)
    summary = f"{allowed} disruptions allowed; {healthy} of {expected} pods healthy, {desired} needed"
    if is_deleting(obj):
        return State.UNWELL, "Terminating", remaining(obj)
    condition = get_condition(obj, "DisruptionAllowed")
    if condition is not None and condition.get("reason") == "SyncFailed":
        step = "its pods must belong to a controller with a scale subresource, or use minAvailable as a number"
        return State.UNWELL, summary, [Cause("the disruption controller cannot count", (condition_text(condition),), step)]
    if allowed > 0:
        return State.WELL, summary, []
    chosen = selected(snapshot, obj)
    if expected == 0:
        return State.WELL, f"{summary}: it selects no pods", []
    rule = next((f"{key} {spec[key]}" for key in ("minAvailable", "maxUnavailable") if spec.get(key) is not None), "no rule")
    if healthy <= desired and healthy >= expected:
        step = "let it allow one more to be missing, or run one more replica; else every drain waits for ever"
        return (
            State.UNWELL,
            summary,
            [Cause(f"with {rule} and {plural(expected, 'pod')} it never lets any pod be evicted", step=step)],
        )
    below, _ = pod_causes(snapshot, chosen)
    says = f"{rule}: {plural(expected - healthy, 'pod')} are unhealthy already, so no other may be evicted"
    return State.UNWELL, summary, [Cause(says, step="" if below else "kubectl get pods with its selector", causes=tuple(below))]

"""Jobs: suspended, failed for good, or waiting for their pods."""

from apimachinery.meta import Object, get_condition, is_deleting, name_of, namespace_of
from apimachinery.objects import pods
from why.cause import Cause, Explanation, State
from why.explainers.deletion import remaining
from why.explainers.workload import create_failures, pod_causes
from why.snapshot import Snapshot
from why.words import condition_text, flag, short, subject

_STEPS = {
    "BackoffLimitExceeded": "see why its pods fail; then delete the job and make it anew",
    "DeadlineExceeded": "raise activeDeadlineSeconds, or have the work take less time; then make the job anew",
    "PodFailurePolicy": "a rule of podFailurePolicy ended the job: see the exit code above",
}


def explain(snapshot: Snapshot, obj: Object) -> Explanation:
    state, summary, causes = _judge(snapshot, obj)
    return Explanation(subject(obj), namespace_of(obj), state, summary, tuple(causes))


def _judge(snapshot: Snapshot, obj: Object) -> tuple[State, str, list[Cause]]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    active, succeeded, failed = (int(status.get(field) or 0) for field in ("active", "succeeded", "failed"))
    wanted = spec.get("completions")
    done = f"{succeeded} of {wanted} pods succeeded" if wanted is not None else f"{succeeded} pods succeeded"
    summary = f"{done}, {active} active, {failed} failed"
    if is_deleting(obj):
        return State.UNWELL, "Terminating", remaining(obj)
    over = get_condition(obj, "Failed")
    if over is not None and over.get("status") == "True":
        causes, _ = pod_causes(snapshot, [pod for pod in snapshot.owned(obj, "Pod") if pods.phase(pod) == "Failed"])
        limit = spec.get("backoffLimit")
        more = (f"backoffLimit {limit}",) if over.get("reason") == "BackoffLimitExceeded" and limit is not None else ()
        step = _STEPS.get(str(over.get("reason")), "delete the job and make it anew")
        return (
            State.UNWELL,
            f"Failed: {summary}",
            [
                Cause(
                    f"{over.get('reason')}: {short(over.get('message') or '')}",
                    (condition_text(over), *more),
                    step,
                    tuple(causes),
                )
            ],
        )
    complete = get_condition(obj, "Complete")
    if complete is not None and complete.get("status") == "True":
        return State.WELL, f"Complete: {done}", []
    if spec.get("suspend"):
        step = f'kubectl patch job {name_of(obj)}{flag(obj)} -p \'{{"spec":{{"suspend":false}}}}\''
        return State.UNWELL, f"suspended: {summary}", [Cause("spec.suspend is true: no pods are run", step=step)]
    failures = create_failures(snapshot, obj)
    live = [pod for pod in snapshot.owned(obj, "Pod") if pods.phase(pod) != "Succeeded"]
    below, broken = pod_causes(snapshot, live)
    if failures or broken:
        return State.UNWELL, summary, [*failures, *below]
    manager = str(spec.get("managedBy") or "")
    if manager and manager != "kubernetes.io/job-controller":
        return State.WAITING, summary, [Cause(f"it is managed by {manager}, not by the job controller"), *below]
    if not live and snapshot.covers("Pod", namespace_of(obj)):
        return (
            State.WAITING,
            summary,
            [Cause("its pods have not been made yet", step="if this lasts, check the controller manager")],
        )
    return State.WAITING, summary, below or [Cause(f"{active} pods are at work")]

"""Deployments: paused, out of their deadline, or waiting for the pods of their ReplicaSets."""

from apimachinery.meta import Object, annotation, get_condition, is_deleting, name_of, namespace_of
from why.cause import Cause, Explanation, State
from why.explainers import replicaset
from why.explainers.deletion import terminating
from why.explainers.workload import create_failures, not_observed
from why.snapshot import Snapshot
from why.words import condition_text, flag, subject

_REVISION = "deployment.kubernetes.io/revision"


def explain(snapshot: Snapshot, obj: Object) -> Explanation:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    wanted = int(spec["replicas"]) if spec.get("replicas") is not None else 1
    updated, available = int(status.get("updatedReplicas") or 0), int(status.get("availableReplicas") or 0)
    total = int(status.get("replicas") or 0)
    summary = f"{available} of {wanted} pods available, {updated} up to date"
    if is_deleting(obj):
        return terminating(obj)
    unseen = not_observed(snapshot, obj)
    if available >= wanted and updated >= wanted and total <= updated and not unseen:
        return Explanation(subject(obj), namespace_of(obj), State.WELL, summary)
    causes = [*unseen, *_paused(obj, updated < wanted)]
    late = _deadline(obj)
    failures = create_failures(snapshot, obj)
    sets = [replicaset.explain(snapshot, each) for each in _relevant(snapshot, obj)]
    below = [each.as_cause() for each in sets if each.state is not State.WELL]
    if late is not None:
        causes.append(Cause(late.says, late.evidence, late.step if not below else ""))
    causes += below or failures
    rollout = _rollout(obj, updated, wanted, total, available)
    if rollout is not None and (not causes or all(each.state is not State.UNWELL for each in sets)):
        causes.append(rollout)
    if not causes:
        causes.append(Cause("its ReplicaSets have what they want, and the controller has not counted that yet",
                            step="if this lasts, check that the controller manager runs"))  # fmt: skip
    stuck = bool(unseen or late or failures or spec.get("paused")) or any(each.state is not State.WAITING for each in sets)
    moving = not stuck or (not below and not unseen and not late and not spec.get("paused") and not failures)
    return Explanation(subject(obj), namespace_of(obj), State.WAITING if moving else State.UNWELL, summary, tuple(causes))


def _paused(obj: Object, outdated: bool) -> list[Cause]:
    if not (obj.get("spec") or {}).get("paused"):
        return []
    says = "it is paused: changes of its template are not rolled out" if outdated else "it is paused"
    return [Cause(says, step=f"kubectl rollout resume deployment/{name_of(obj)}{flag(obj)}")]


def _deadline(obj: Object) -> Cause | None:
    condition = get_condition(obj, "Progressing")
    if condition is None or condition.get("status") != "False":
        return None
    seconds = (obj.get("spec") or {}).get("progressDeadlineSeconds") or 600
    step = f"kubectl rollout undo deployment/{name_of(obj)}{flag(obj)}, or mend its template"
    return Cause(f"it made no progress within progressDeadlineSeconds {seconds}", (condition_text(condition),), step)


def _relevant(snapshot: Snapshot, obj: Object) -> list[Object]:
    """The newest ReplicaSet, and older ones that still want pods."""
    owned = sorted(snapshot.owned(obj, "ReplicaSet"), key=_revision, reverse=True)
    return [each for number, each in enumerate(owned) if number == 0 or (each.get("spec") or {}).get("replicas")]


def _revision(obj: Object) -> int:
    text = annotation(obj, _REVISION) or "0"
    return int(text) if text.isdigit() else 0


def _rollout(obj: Object, updated: int, wanted: int, total: int, available: int) -> Cause | None:
    """How a rollout that is under way is held to its pace."""
    strategy = (obj.get("spec") or {}).get("strategy") or {}
    if updated >= wanted and total <= updated:
        return None
    if strategy.get("type") == "Recreate":
        return Cause("strategy Recreate: all old pods must end before new ones are made")
    rolling = strategy.get("rollingUpdate") or {}
    surge, down = rolling.get("maxSurge", "25%"), rolling.get("maxUnavailable", "25%")
    pace = f"maxSurge {surge}, maxUnavailable {down}"
    says = f"a rollout is under way: {updated} of {wanted} pods are new, {max(0, total - updated)} old"
    return Cause(says, (pace, f"{available} available"), f"kubectl rollout status deployment/{name_of(obj)}{flag(obj)}")

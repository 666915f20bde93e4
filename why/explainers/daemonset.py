"""DaemonSets: nodes on which the pod is missing, not ready or of the old template."""

from apimachinery.meta import Object, is_deleting, name_of, namespace_of
from why.cause import Cause, Explanation, State
from why.explainers.deletion import terminating
from why.explainers.workload import create_failures, not_observed, pod_causes
from why.snapshot import Snapshot
from why.words import flag, latest, pairs, subject


def explain(snapshot: Snapshot, obj: Object) -> Explanation:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    wanted, ready = int(status.get("desiredNumberScheduled") or 0), int(status.get("numberReady") or 0)
    updated, available = int(status.get("updatedNumberScheduled") or 0), int(status.get("numberAvailable") or 0)
    wrong = int(status.get("numberMisscheduled") or 0)
    summary = f"{ready} of {wanted} pods ready, {updated} up to date"
    if is_deleting(obj):
        return terminating(obj)
    unseen = not_observed(snapshot, obj)
    failures = create_failures(snapshot, obj)
    below, broken = pod_causes(snapshot, snapshot.owned(obj, "Pod")) if ready < wanted else ([], False)
    causes = [*unseen, *failures, *below]
    if wanted == 0 and not unseen:
        return Explanation(subject(obj), namespace_of(obj), State.WELL, "no node wants a pod of it", tuple(_nowhere(spec)))
    if ready >= wanted > available:
        causes.append(Cause(f"ready pods count as available after minReadySeconds {spec.get('minReadySeconds') or 0}"))
    held = updated < wanted and (spec.get("updateStrategy") or {}).get("type") == "OnDelete"
    if updated < wanted and not unseen:
        causes.append(_outdated(obj, wanted - updated))
    if wrong:
        causes.append(Cause(f"{wrong} nodes run a pod of it and should not", latest(snapshot, obj), "they are deleted shortly"))
    if not causes and ready < wanted:
        causes.append(Cause(f"{wanted - ready} pods have not been made or counted yet",
                            latest(snapshot, obj, "FailedDaemonPod", "FailedPlacement"),
                            "if this lasts, check that the controller manager runs"))  # fmt: skip
    well = ready >= wanted and available >= wanted and not unseen and not failures and (updated >= wanted or held)
    stuck = bool(unseen or failures or broken)
    state = State.WELL if well else State.UNWELL if stuck else State.WAITING
    return Explanation(subject(obj), namespace_of(obj), state, summary, tuple(causes))


def _nowhere(spec: Object) -> list[Cause]:
    template = ((spec.get("template") or {}).get("spec")) or {}
    if not template.get("nodeSelector"):
        return []
    return [Cause(f"its nodeSelector {pairs(template['nodeSelector'])} matches no node", step="label a node, if it should run")]


def _outdated(obj: Object, count: int) -> Cause:
    strategy = (obj.get("spec") or {}).get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        says = f"{count} pods are of the old template: with updateStrategy OnDelete each is replaced when it is deleted"
        return Cause(says, step=f"kubectl delete pods of the nodes to update{flag(obj)}")
    pace = (strategy.get("rollingUpdate") or {}).get("maxUnavailable") or 1
    step = f"kubectl rollout status daemonset/{name_of(obj)}{flag(obj)}"
    return Cause(f"{count} pods are of the old template: the rolling update replaces maxUnavailable {pace} at a time", step=step)

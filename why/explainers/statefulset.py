"""StatefulSets: the one pod that holds up the next, partitions, and the Service that gives the pods their names."""

from apimachinery.meta import Object, is_deleting, labels_of, name_of, namespace_of
from apimachinery.objects import services
from why.cause import Cause, Explanation, State
from why.explainers.deletion import terminating
from why.explainers.workload import create_failures, not_observed, pod_causes
from why.snapshot import Snapshot
from why.words import flag, subject

_REVISION_LABEL = "controller-revision-hash"


def explain(snapshot: Snapshot, obj: Object) -> Explanation:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    wanted = int(spec["replicas"]) if spec.get("replicas") is not None else 1
    ready, available = int(status.get("readyReplicas") or 0), int(status.get("availableReplicas") or 0)
    updated = int(status.get("updatedReplicas") or 0)
    summary = f"{ready} of {wanted} pods ready, {updated} up to date"
    if is_deleting(obj):
        return terminating(obj)
    unseen = not_observed(snapshot, obj)
    service = _service(snapshot, obj)
    outdated = status.get("currentRevision") != status.get("updateRevision") and updated < wanted
    strategy = _strategy(snapshot, obj, updated, wanted) if outdated else None
    if ready >= wanted and available >= wanted and not unseen:
        if strategy is None and service is None:
            return Explanation(subject(obj), namespace_of(obj), State.WELL, summary)
        causes = [each for each in (service, strategy) if each is not None]
        held = _partition(obj) or (spec.get("updateStrategy") or {}).get("type") == "OnDelete"
        state = State.UNWELL if service is not None else State.WELL if held else State.WAITING
        return Explanation(subject(obj), namespace_of(obj), state, summary, tuple(causes))
    failures = create_failures(snapshot, obj, "FailedCreate")
    owned = snapshot.owned(obj, "Pod")
    below, broken = pod_causes(snapshot, owned)
    causes = [*unseen, *failures, *below]
    if below and len(owned) < wanted and spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady":
        says = f"pods are made one by one (OrderedReady): {wanted - len(owned)} wait for the ones above to be ready"
        causes.append(Cause(says))
    if ready >= wanted > available:
        causes.append(Cause(f"ready pods count as available after minReadySeconds {spec.get('minReadySeconds') or 0}"))
    causes += [each for each in (service, strategy) if each is not None]
    stuck = bool(unseen or failures or broken or service)
    if not causes:
        causes.append(Cause("its pods have not been made or counted yet", step="if this lasts, check the controller manager"))
    return Explanation(subject(obj), namespace_of(obj), State.UNWELL if stuck else State.WAITING, summary, tuple(causes))


def _service(snapshot: Snapshot, obj: Object) -> Cause | None:
    """The governing Service: without it the pods' host names do not resolve."""
    name = str((obj.get("spec") or {}).get("serviceName") or "")
    if not name:
        return None
    found = snapshot.get("Service", name, namespace_of(obj))
    if found is None:
        if not snapshot.is_missing("Service", name, namespace_of(obj)):
            return None
        step = f"kubectl create service clusterip {name} --clusterip=None{flag(obj)}, and give it the pods' selector"
        return Cause(f"service/{name} (spec.serviceName) does not exist: the pods have no names in DNS", step=step)
    template = ((obj.get("spec") or {}).get("template") or {}).get("metadata") or {}
    if services.selector(found) and not services.selects(found, template.get("labels") or {}):
        return Cause(f"service/{name} (spec.serviceName) does not select the pods: they have no names in DNS",
                     step=f"make its selector match the template: kubectl edit service {name}{flag(obj)}")  # fmt: skip
    return None


def _partition(obj: Object) -> int:
    strategy = (obj.get("spec") or {}).get("updateStrategy") or {}
    return int((strategy.get("rollingUpdate") or {}).get("partition") or 0)


def _strategy(snapshot: Snapshot, obj: Object, updated: int, wanted: int) -> Cause | None:
    strategy = (obj.get("spec") or {}).get("updateStrategy") or {}
    old = f"{wanted - updated} of {wanted} pods are of the old revision"
    if strategy.get("type") == "OnDelete":
        outdated = [
            name_of(pod)
            for pod in snapshot.owned(obj, "Pod")
            if labels_of(pod).get(_REVISION_LABEL) != (obj.get("status") or {}).get("updateRevision")
        ]
        step = f"kubectl delete pod {outdated[0] if outdated else 'NAME'}{flag(obj)}"
        return Cause(f"{old}: with updateStrategy OnDelete each is replaced when somebody deletes it", step=step)
    partition = _partition(obj)
    if partition and updated >= wanted - partition:
        step = "lower spec.updateStrategy.rollingUpdate.partition to go on"
        return Cause(f"{old}: partition {partition} keeps ordinals below {partition} as they are", step=step)
    return Cause(f"{old}: the rolling update replaces one pod at a time, the highest ordinal first, and waits for it to be ready")

"""Which explainer answers for which kind. Called by ``cli.why``."""

from collections.abc import Callable, Iterable

from apimachinery.meta import Object, controller_of, namespace_of, uid_of
from apimachinery.objects import pods
from why.cause import Cause, Explanation, State
from why.explainers import (
    anything,
    apiservice,
    cronjob,
    customresourcedefinition,
    daemonset,
    deployment,
    horizontalpodautoscaler,
    job,
    namespace,
    node,
    persistentvolume,
    persistentvolumeclaim,
    pod,
    poddisruptionbudget,
    replicaset,
    resourcequota,
    service,
    statefulset,
    webhookconfiguration,
)
from why.snapshot import Snapshot
from why.words import subject

Explainer = Callable[[Snapshot, Object], Explanation]

EXPLAINERS: dict[str, Explainer] = {
    "Node": node.explain,
    "APIService": apiservice.explain,
    "CustomResourceDefinition": customresourcedefinition.explain,
    "MutatingWebhookConfiguration": webhookconfiguration.explain,
    "ValidatingWebhookConfiguration": webhookconfiguration.explain,
    "Namespace": namespace.explain,
    "Deployment": deployment.explain,
    "StatefulSet": statefulset.explain,
    "DaemonSet": daemonset.explain,
    "CronJob": cronjob.explain,
    "Job": job.explain,
    "ReplicaSet": replicaset.explain,
    "ReplicationController": replicaset.explain,
    "Pod": pod.explain,
    "Service": service.explain,
    "PersistentVolumeClaim": persistentvolumeclaim.explain,
    "PersistentVolume": persistentvolume.explain,
    "HorizontalPodAutoscaler": horizontalpodautoscaler.explain,
    "PodDisruptionBudget": poddisruptionbudget.explain,
    "ResourceQuota": resourcequota.explain,
}
"""In the order in which ``--all`` tells: what others depend on first, owners before what they own."""

_BROKEN = (ValueError, TypeError, KeyError, AttributeError, IndexError)


def explain(snapshot: Snapshot, obj: Object) -> Explanation:
    """The explanation of any object. One whose fields have forms that no server should store is UNKNOWN, never WELL."""
    explainer = EXPLAINERS.get(str(obj.get("kind")), anything.explain)
    try:
        return explainer(snapshot, obj)
    except _BROKEN as error:
        cause = Cause(f"a field has a form that cannot be understood: {type(error).__name__}: {error}")
        return Explanation(subject(obj), namespace_of(obj), State.UNKNOWN, "cannot be explained", (cause,))


def unwell(snapshot: Snapshot, namespaces: Iterable[str] | None = None) -> list[Explanation]:
    """Everything of the snapshot that is not well and not told of in the chain of another; of these namespaces, or of all (None).

    What has no namespace is always told of.
    """
    chosen = None if namespaces is None else set(namespaces)
    told: set[str] = set()
    content: set[str] = set()
    found = []
    for kind in EXPLAINERS:
        for obj in snapshot.all(kind):
            if chosen is not None and namespace_of(obj) and namespace_of(obj) not in chosen:
                continue
            owner = controller_of(obj)
            if owner is not None and str(owner.get("uid")) in told:
                told.add(uid_of(obj))
                continue
            if owner is not None and str(owner.get("uid")) in content and pods.is_terminal(obj):
                continue  # a failed try of a job that is complete, a pod that was evicted and replaced
            answer = explain(snapshot, obj)
            if answer.state is State.WELL:
                content.add(uid_of(obj))
            if answer.state in (State.UNWELL, State.WAITING):
                told.add(uid_of(obj))
                found.append(answer)
    within = {cause.about for answer in found for cause in answer.walk() if cause.about}
    found = [each for each in found if each.where not in within]
    return sorted(found, key=lambda each: each.state is State.WAITING)

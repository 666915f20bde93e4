"""PodDisruptionBudgets and the pods that they are for. Called by the explainers of budgets and of nodes that are drained."""

from apimachinery import labels
from apimachinery.meta import Object, labels_of, name_of, namespace_of
from why.snapshot import Snapshot


def selected(snapshot: Snapshot, obj: Object) -> list[Object]:
    """The pods of a budget."""
    written = (obj.get("spec") or {}).get("selector")
    if written is None:
        return []
    selector = labels.from_label_selector(written)
    groups = snapshot.pods_by_labels(namespace_of(obj))
    return [pod for group in groups if selector.matches(labels_of(group[0])) for pod in group]


def blocking(snapshot: Snapshot, pod: Object) -> list[str]:
    """Names of the budgets that do not let the pod be evicted now."""
    return [
        name_of(each)
        for each in snapshot.all("PodDisruptionBudget", namespace_of(pod))
        if not (each.get("status") or {}).get("disruptionsAllowed") and pod in selected(snapshot, each)
    ]

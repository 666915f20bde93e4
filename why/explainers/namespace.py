"""Namespaces that stay Terminating: what is left in them, by whose finalizers, and which API group cannot be asked."""

from apimachinery.meta import Object, conditions_of, finalizers_of, is_deleting, name_of
from why import remains
from why.cause import Cause, Explanation, State
from why.explainers import apiservice
from why.explainers.deletion import held_by_finalizers
from why.snapshot import Snapshot
from why.words import ago, condition_text, few, subject

_SHOWN = 5
_STEPS = {
    "NamespaceDeletionDiscoveryFailure": "mend or delete the APIService that does not answer",
    "NamespaceDeletionGroupVersionParsingFailure": "look at the controller manager's log",
    "NamespaceDeletionContentFailure": "the content may not be deleted: see the message",
    "NamespaceContentRemaining": "see the finalizers of what is left: kubectl get KIND -n {name} -o yaml",
    "NamespaceFinalizersRemaining": "check that the controllers of these finalizers run; they remove them when they are done",
}


def explain(snapshot: Snapshot, namespace: Object) -> Explanation:
    if not is_deleting(namespace) and (namespace.get("status") or {}).get("phase") != "Terminating":
        return Explanation(subject(namespace), "", State.WELL, "Active")
    age = ago(snapshot, (namespace.get("metadata") or {}).get("deletionTimestamp"))
    causes = [_condition(snapshot, namespace, each) for each in conditions_of(namespace) if each.get("status") == "True"]
    held = [str(each) for each in (namespace.get("spec") or {}).get("finalizers") or ()]
    own = [each for each in held if each != "kubernetes"]
    own += [str(each) for each in (namespace.get("metadata") or {}).get("finalizers") or ()]
    causes += [Cause(f"finalizer {each} of the namespace itself is not removed by its owner") for each in own]
    if not causes:
        step = "if this lasts, check that the controller manager runs"
        causes = [Cause("its content is being deleted; no obstacle has been reported", step=step)]
        state = State.WAITING
    else:
        state = State.UNWELL
    return Explanation(subject(namespace), "", state, f"Terminating for {age or 'a moment'}", tuple(causes))


def _condition(snapshot: Snapshot, namespace: Object, condition: Object) -> Cause:
    kind = str(condition.get("type"))
    below = apiservice.unavailable(snapshot) if kind == "NamespaceDeletionDiscoveryFailure" else []
    if kind == remains.CONDITION:
        below = _remaining(snapshot, namespace)
    step = "" if below else _STEPS.get(kind, "").format(name=name_of(namespace))
    says = str(condition.get("message") or kind)
    return Cause(says, (condition_text({**condition, "message": ""}),), step, tuple(below))


def _remaining(snapshot: Snapshot, namespace: Object) -> list[Cause]:
    """The objects behind the condition, those with finalizers one by one."""
    found = []
    for resource in remains.resources(namespace):
        objects = snapshot.all(resource, name_of(namespace))
        free = [name_of(each) for each in objects if not finalizers_of(each)]
        if free:
            found.append(Cause(f"{resource} without finalizers, about to go: {few(free)}"))
        held = [each for each in objects if finalizers_of(each)]
        found += [Cause(f"{resource}/{name_of(each)} is held", causes=tuple(held_by_finalizers(each))) for each in held[:_SHOWN]]
        if len(held) > _SHOWN:
            found.append(Cause(f"{len(held) - _SHOWN} more {resource} with finalizers"))
    return found

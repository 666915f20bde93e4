"""Namespaces that stay Terminating: what is left in them, by whose finalizers, and which API group cannot be asked."""

from apimachinery.meta import Object, conditions_of, is_deleting, name_of
from why.cause import Cause, Explanation, State
from why.explainers import apiservice
from why.snapshot import Snapshot
from why.words import ago, condition_text, subject

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
    step = "" if below else _STEPS.get(kind, "").format(name=name_of(namespace))
    says = str(condition.get("message") or kind)
    return Cause(says, (condition_text({**condition, "message": ""}),), step, tuple(below))

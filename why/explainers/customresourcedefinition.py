"""CustomResourceDefinitions that are not established, whose names collide, or that do not go."""

from apimachinery.meta import Object, conditions_of, get_condition, is_deleting, name_of
from why.cause import Cause, Explanation, State
from why.explainers.deletion import held_by_finalizers
from why.snapshot import Snapshot
from why.words import condition_text, subject

_BAD = {
    ("NamesAccepted", "False"): "another definition has these names: rename this one or delete the other",
    ("NonStructuralSchema", "True"): "mend the schema: each field must have a type, and nothing is left open unsaid",
    (
        "KubernetesAPIApprovalPolicyConformant",
        "False",
    ): "set the annotation api-approved.kubernetes.io, or use a group of your own",
}


def explain(snapshot: Snapshot, obj: Object) -> Explanation:
    if is_deleting(obj):
        ending = get_condition(obj, "Terminating")
        evidence = (condition_text(ending),) if ending is not None else ()
        says = "its custom resources must go first, each by its own finalizers"
        step = f"kubectl get {name_of(obj)} -A; see which objects keep finalizers"
        causes = (Cause(says, evidence, step), *held_by_finalizers(obj))
        return Explanation(subject(obj), "", State.UNWELL, "Terminating", causes)
    causes = tuple(
        Cause(condition_text(each), step=_BAD[str(each.get("type")), str(each.get("status"))])
        for each in conditions_of(obj)
        if (str(each.get("type")), str(each.get("status"))) in _BAD
    )
    established = get_condition(obj, "Established")
    if established is not None and established.get("status") == "True":
        return Explanation(subject(obj), "", State.UNWELL if causes else State.WELL, "established", causes)
    if not causes:
        evidence = (condition_text(established),) if established is not None else ()
        causes = (Cause("it is not established yet", evidence, "if this lasts, check the API server's log"),)
    return Explanation(subject(obj), "", State.UNWELL, "not established", causes)

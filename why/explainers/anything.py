"""Every other kind, custom resources too: deletion, the conditions by which it says how it is, and warnings."""

from apimachinery.meta import Object, conditions_of, is_deleting, name_of, namespace_of
from why.cause import Cause, Explanation, State
from why.explainers.deletion import terminating
from why.snapshot import Snapshot
from why.words import condition_text, flag, subject, warnings

_GOOD = frozenset({"Ready", "Available", "Established", "Synced", "Healthy", "Succeeded", "Reconciled", "Programmed", "Accepted"})
_BAD = frozenset({"Failed", "Degraded", "Stalled", "Error", "Terminating"})


def explain(snapshot: Snapshot, obj: Object) -> Explanation:
    where = (subject(obj), namespace_of(obj))
    if is_deleting(obj):
        return terminating(obj)
    told = [each for each in conditions_of(obj) if each.get("type") in _GOOD | _BAD]
    bad = [each for each in told if (each.get("status") == "True") is (each.get("type") in _BAD)]
    if bad:
        step = f"kubectl describe {str(obj.get('kind')).lower()} {name_of(obj)}{flag(obj)}"
        causes = [
            Cause(condition_text(bad[0]), warnings(snapshot, obj), step),
            *(Cause(condition_text(each)) for each in bad[1:]),
        ]
        return Explanation(*where, State.UNWELL, f"{bad[0].get('type')} is {bad[0].get('status')}", tuple(causes))
    said = warnings(snapshot, obj)
    causes = [Cause("the latest warnings about it", said)] if said else []
    if told:
        return Explanation(*where, State.WELL, f"{told[0].get('type')} is {told[0].get('status')}", tuple(causes))
    return Explanation(*where, State.UNKNOWN, "its kind has no condition that tells how it is", tuple(causes))

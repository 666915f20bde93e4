"""ResourceQuotas that are used up."""

from apimachinery import quantity
from apimachinery.meta import Object, is_deleting, namespace_of
from why.cause import Cause, Explanation, State
from why.explainers.deletion import terminating
from why.snapshot import Snapshot
from why.words import plural, subject


def explain(snapshot: Snapshot, obj: Object) -> Explanation:
    if is_deleting(obj):
        return terminating(obj)
    status = obj.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    wanted = (obj.get("spec") or {}).get("hard") or {}
    if wanted and not hard:
        cause = Cause("nobody has counted what is used yet", step="if this lasts, check that the controller manager runs")
        return Explanation(subject(obj), namespace_of(obj), State.WAITING, "not counted", (cause,))
    full = [
        Cause(f"{name}: {used[name]} of {limit} is used: nothing more is admitted", step="raise the quota, or free some of it")
        for name, limit in sorted(hard.items())
        if name in used and quantity.parse(str(used[name])) >= quantity.parse(str(limit))
    ]
    summary = f"{len(full)} of {plural(len(hard), 'limit')} reached"
    return Explanation(subject(obj), namespace_of(obj), State.UNWELL if full else State.WELL, summary, tuple(full))

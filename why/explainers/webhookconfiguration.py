"""Webhook configurations that point to nothing, and what that stops. Both kinds, mutating and validating."""

from apimachinery.meta import Object, is_deleting, name_of
from why.cause import Cause, Explanation, State
from why.explainers.apiservice import backend_causes
from why.explainers.deletion import terminating
from why.snapshot import Snapshot
from why.words import few, plural, subject


def explain(snapshot: Snapshot, obj: Object) -> Explanation:
    if is_deleting(obj):
        return terminating(obj)
    hooks = obj.get("webhooks") or []
    causes = []
    for hook in hooks:
        client = hook.get("clientConfig") or {}
        below = backend_causes(snapshot, client.get("service"))
        if below:
            causes.append(_cause(obj, hook, below))
    summary = f"{plural(len(causes), 'webhook')} of {len(hooks)} cannot be called" if causes else plural(len(hooks), "webhook")
    seen = snapshot.covers("Service") and snapshot.covers("EndpointSlice")
    state = State.UNWELL if causes else State.WELL if seen or not hooks else State.UNKNOWN
    return Explanation(subject(obj), "", state, summary, tuple(causes))


def _cause(obj: Object, hook: Object, below: list[Cause]) -> Cause:
    ignored = hook.get("failurePolicy") == "Ignore"
    effect = "requests go on without it (failurePolicy Ignore)" if ignored else "these requests are refused (failurePolicy Fail)"
    rules = []
    for rule in hook.get("rules") or ():
        verbs = ",".join(str(each) for each in rule.get("operations") or ())
        rules.append(f"{verbs} of {','.join(str(each) for each in rule.get('resources') or ())}")
    step = f"mend its server; if it is gone for good: kubectl delete {str(obj.get('kind')).lower()} {name_of(obj)}"
    return Cause(f"webhook {hook.get('name')}: {effect}", (f"called on {few(rules) or 'nothing'}",), step, tuple(below))

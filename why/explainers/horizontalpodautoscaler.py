"""HorizontalPodAutoscalers that cannot act: no metrics, no target, or at a limit."""

from apimachinery.meta import Object, get_condition, is_deleting, namespace_of
from why.cause import Cause, Explanation, State
from why.explainers import apiservice
from why.explainers.deletion import terminating
from why.snapshot import Snapshot
from why.words import condition_text, subject, warnings

_METRICS = {
    "Resource": "v1beta1.metrics.k8s.io",
    "ContainerResource": "v1beta1.metrics.k8s.io",
    "Pods": "v1beta1.custom.metrics.k8s.io",
    "Object": "v1beta1.custom.metrics.k8s.io",
    "External": "v1beta1.external.metrics.k8s.io",
}


def explain(snapshot: Snapshot, obj: Object) -> Explanation:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    target = spec.get("scaleTargetRef") or {}
    name = f"{str(target.get('kind')).lower()}/{target.get('name')}"
    now, wanted = int(status.get("currentReplicas") or 0), int(status.get("desiredReplicas") or 0)
    summary = f"scales {name}: {now} replicas, {wanted} wanted (from {spec.get('minReplicas', 1)} to {spec.get('maxReplicas')})"
    if is_deleting(obj):
        return terminating(obj)
    causes = []
    able, active, limited = (get_condition(obj, kind) for kind in ("AbleToScale", "ScalingActive", "ScalingLimited"))
    if able is None and active is None:
        step = "if this lasts, check that a controller for autoscaling runs"
        causes.append(Cause("no controller has looked at it yet", warnings(snapshot, obj), step))
    if able is not None and able.get("status") != "True":
        causes.append(_unable(snapshot, obj, able, str(target.get("kind")), str(target.get("name"))))
    if active is not None and active.get("status") != "True":
        causes.append(_inactive(snapshot, obj, active))
    unwell = bool(causes)
    if limited is not None and limited.get("status") == "True":
        causes.append(_limited(limited))
    return Explanation(subject(obj), namespace_of(obj), State.UNWELL if unwell else State.WELL, summary, tuple(causes))


def _unable(snapshot: Snapshot, obj: Object, condition: Object, kind: str, name: str) -> Cause:
    if snapshot.is_missing(kind, name, namespace_of(obj)):
        return Cause(f"its target {kind.lower()}/{name} does not exist", (condition_text(condition),), "correct scaleTargetRef")
    return Cause("it cannot scale its target", (condition_text(condition),), "see the message")


def _inactive(snapshot: Snapshot, obj: Object, condition: Object) -> Cause:
    reason = str(condition.get("reason") or "")
    evidence = (condition_text(condition),)
    if reason == "ScalingDisabled":
        return Cause("its target has 0 replicas, which turns it off", evidence, "scale the target to 1 or more")
    message = str(condition.get("message") or "")
    if "missing request for" in message:
        return Cause("its pods request nothing of that resource, so there is no utilization", evidence, "set resources.requests")
    wanted = {
        _METRICS[kind] for each in (obj.get("spec") or {}).get("metrics") or () if (kind := str(each.get("type"))) in _METRICS
    }
    below = []
    for name in sorted(wanted):
        served = snapshot.get("APIService", name)
        if served is not None:
            told = apiservice.explain(snapshot, served)
            below += [] if told.state is State.WELL else [told.as_cause()]
        elif snapshot.is_missing("APIService", name):
            below.append(Cause(f"nobody serves {name}", step="install metrics-server, or the adapter of these metrics"))
    return Cause("it gets no metrics", evidence, "" if below else "see the message", tuple(below))


def _limited(condition: Object) -> Cause:
    if condition.get("reason") == "TooManyReplicas":
        return Cause("it wants more replicas than maxReplicas allows", (condition_text(condition),), "raise maxReplicas")
    return Cause("it is at a limit", (condition_text(condition),))

"""Pods: which chapter of a pod's life it is stuck in."""

from collections.abc import Callable

from apimachinery.meta import Object, get_condition, is_deleting, name_of, namespace_of
from apimachinery.objects import pods
from why.cause import Cause, Explanation, State
from why.explainers import node as nodes
from why.explainers.pod_containers import container_causes, restarts
from why.explainers.pod_pending import pending_causes
from why.explainers.pod_terminating import terminating
from why.explainers.pod_volumes import sandbox_causes, volume_causes
from why.snapshot import Snapshot, moment
from why.words import ago, condition_text, flag, for_time, latest, short, subject, warnings

_YOUNG = 60.0
"""Seconds for which a pod that nothing is known against counts as starting."""


def explain(snapshot: Snapshot, pod: Object) -> Explanation:
    state, summary, causes = _judge(snapshot, pod)
    return Explanation(subject(pod), namespace_of(pod), state, summary, tuple(causes))


def _judge(snapshot: Snapshot, pod: Object) -> tuple[State, str, list[Cause]]:
    phase = pods.phase(pod)
    if is_deleting(pod):
        return terminating(snapshot, pod)
    if phase == "Succeeded":
        return State.WELL, "Succeeded: all its containers have ended with exit code 0", []
    if phase == "Failed":
        return State.UNWELL, _failed(pod), _or_else(container_causes(snapshot, pod), lambda: _nothing_known(snapshot, pod))
    created = (pod.get("metadata") or {}).get("creationTimestamp")
    if not pods.node_name(pod):
        causes, moving = pending_causes(snapshot, pod)
        return (State.WAITING if moving else State.UNWELL), f"Pending{for_time(snapshot, created)}: it has no node", causes
    if pods.is_ready(pod):
        return State.WELL, f"Running and Ready on {pods.node_name(pod)}", restarts(snapshot, pod)
    return _on_its_node(snapshot, pod)


def _on_its_node(snapshot: Snapshot, pod: Object) -> tuple[State, str, list[Cause]]:
    node = pods.node_name(pod)
    created = (pod.get("metadata") or {}).get("creationTimestamp")
    lost = lost_node(snapshot, node)
    if lost is not None:
        return State.UNWELL, f"on node {node}, which does not answer", [lost]
    causes = container_causes(snapshot, pod)
    if not _has_started(pod):
        causes = [*volume_causes(snapshot, pod), *sandbox_causes(snapshot, pod), *causes]
    if not causes:
        causes = _gates(pod)
    phase = pods.phase(pod) or "Pending"
    summary = f"{phase} on {node}{for_time(snapshot, created)}, not Ready"
    if causes:
        return State.UNWELL, summary, causes
    causes = _nothing_known(snapshot, pod)
    return (State.WAITING if _is_young(snapshot, created) else State.UNWELL), summary, causes


def _failed(pod: Object) -> str:
    status = pod.get("status") or {}
    reason = f" ({status['reason']})" if status.get("reason") else ""
    message = f": {short(status['message'])}" if status.get("message") else ""
    return f"Failed{reason}{message}"


def _has_started(pod: Object) -> bool:
    """Any container has come further than waiting."""
    return any("waiting" not in (each.get("state") or {"waiting": None}) for each in pods.container_statuses(pod))


def _is_young(snapshot: Snapshot, created: object) -> bool:
    when = moment(created)
    return when is not None and (snapshot.now - when).total_seconds() < _YOUNG


def lost_node(snapshot: Snapshot, name: str) -> Cause | None:
    """A node that is gone or NotReady, as the cause of what its pods are."""
    found = snapshot.get("Node", name)
    if found is None:
        if snapshot.is_missing("Node", name):
            return Cause(f"node {name} does not exist any more", step="the pod garbage collector removes its pods shortly")
        return None
    told = nodes.explain(snapshot, found)
    if get_condition(found, "Ready") is not None and not nodes.is_answering(found):
        return told.as_cause()
    return None


def _gates(pod: Object) -> list[Cause]:
    """Readiness gates, which somebody outside of the kubelet must set."""
    found = []
    for gate in pods.spec_of(pod).get("readinessGates") or ():
        kind = str(gate.get("conditionType") or "")
        condition = get_condition(pod, kind)
        if condition is None or condition.get("status") != "True":
            evidence = (condition_text(condition),) if condition is not None else ("the pod has no such condition",)
            found.append(Cause(f"readiness gate {kind} is not True", evidence, "ask the controller that sets this condition"))
    return found


def _nothing_known(snapshot: Snapshot, pod: Object) -> list[Cause]:
    """What is left to show when no known cause fits: the pod's own conditions and warnings."""
    evidence = [
        condition_text(each) for each in (pod.get("status") or {}).get("conditions") or () if each.get("status") == "False"
    ]
    evidence += [*warnings(snapshot, pod)] or [*latest(snapshot, pod)]
    started = ago(snapshot, (pod.get("status") or {}).get("startTime"))
    says = f"the kubelet has been starting it for {started}" if started else "the kubelet has not reported about it"
    return [Cause(says, tuple(evidence), f"kubectl describe pod {name_of(pod)}{flag(pod)}")]


def _or_else(causes: list[Cause], other: Callable[[], list[Cause]]) -> list[Cause]:
    return causes or other()

"""Pods that are being deleted and stay: grace, finalizers, nodes that are gone."""

from datetime import timedelta

from apimachinery.meta import Object, deletion_time, name_of
from apimachinery.objects import pods
from controlplane.apiserver.registry.printing import human_duration
from why.cause import Cause, State
from why.explainers import node as nodes
from why.explainers.deletion import held_by_finalizers
from why.snapshot import Snapshot
from why.words import few, flag, latest, since

_SLACK = timedelta(seconds=10)  # the kubelet reports a little after the grace


def terminating(snapshot: Snapshot, pod: Object) -> tuple[State, str, list[Cause]]:
    """``deletionTimestamp`` is the end of the grace, not its beginning."""
    due = deletion_time(pod)
    grace = int((pod.get("metadata") or {}).get("deletionGracePeriodSeconds") or 0)
    begun = due - timedelta(seconds=grace) if due is not None else snapshot.now
    summary = f"Terminating for {since(snapshot, begun)}"
    force = f"kubectl delete pod {name_of(pod)}{flag(pod)} --force --grace-period=0"
    gone = _node_gone(snapshot, pod, force)
    if gone is not None:
        return State.UNWELL, summary, [gone, *held_by_finalizers(pod)]
    held = held_by_finalizers(pod)
    running = [str(each.get("name")) for each in pods.container_statuses(pod) if "running" in (each.get("state") or {})]
    if not running and pods.node_name(pod) and held:
        return State.UNWELL, summary, held
    left = (due - snapshot.now) if due is not None else timedelta(0)
    if left > timedelta(0):
        seconds = human_duration(left.total_seconds())
        says = f"its grace period of {grace}s ends in {seconds}; running: {few(running) or 'nothing'}"
        return State.WAITING, summary, [Cause(says, latest(snapshot, pod, "Killing", "FailedPreStopHook")), *held]
    if left > -_SLACK and not held:
        return State.WAITING, summary, [Cause("its grace period has just ended; the kubelet reports next")]
    if held:
        return State.UNWELL, summary, held
    says = f"its grace period ended {human_duration(-left.total_seconds())} ago, and the kubelet has not confirmed"
    evidence = [f"running: {few(running)}" if running else "no container is reported as running"]
    evidence += latest(snapshot, pod, "FailedKillPod", "KillPodSandboxError", "FailedUnmount")
    step = f"look at the kubelet's log on {pods.node_name(pod) or '(no node)'}; as a last resort: {force}"
    return State.UNWELL, summary, [Cause(says, tuple(evidence), step)]


def _node_gone(snapshot: Snapshot, pod: Object, force: str) -> Cause | None:
    """Nobody is there to confirm that the containers have ended."""
    name = pods.node_name(pod)
    found = snapshot.get("Node", name) if name else None
    if found is None:
        if name and snapshot.is_missing("Node", name):
            return Cause(f"its node {name} does not exist any more", step=f"the pod garbage collector removes it, or: {force}")
        return None
    if nodes.is_answering(found):
        return None
    taint = f"kubectl taint nodes {name} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
    step = f"mend the node; or, if it is surely off: {taint}"
    return Cause(
        f"its node {name} does not answer, so nobody confirms its end", (), step, (nodes.explain(snapshot, found).as_cause(),)
    )

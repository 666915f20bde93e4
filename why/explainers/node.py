"""Nodes: whether the kubelet still reports, what it reports, and what keeps pods off."""

from apimachinery.meta import Object, get_condition, is_deleting, key_of, name_of
from apimachinery.objects import nodes, pods
from why.budgets import blocking
from why.cause import Cause, Explanation, State
from why.explainers.deletion import terminating
from why.scheduling import taint_text
from why.snapshot import Snapshot, moment
from why.words import ago, condition_text, few, flag, for_time, subject, warnings

_PRESSURES = {
    "MemoryPressure": "free memory on the node: the kubelet evicts pods and takes no BestEffort ones",
    "DiskPressure": "free disk space on the node: images, logs and emptyDir volumes count",
    "PIDPressure": "end processes on the node: it is about to run out of process ids",
    "NetworkUnavailable": "check the network plugin's pods on the node",
}
_LEASE_SECONDS = 40
_SHOWN = 10
_CLOUD = "node.cloudprovider.kubernetes.io/uninitialized"


def is_answering(node: Object) -> bool:
    """The kubelet's word is recent: Ready is not Unknown."""
    condition = get_condition(node, "Ready")
    return condition is not None and condition.get("status") != "Unknown"


def explain(snapshot: Snapshot, node: Object) -> Explanation:
    if is_deleting(node):
        return terminating(node)
    ready = get_condition(node, "Ready")
    causes: list[Cause] = []
    if ready is None:
        causes.append(Cause("its kubelet has not reported yet", _lease(snapshot, node), _kubelet(node)))
    elif ready.get("status") == "Unknown":
        says = f"its kubelet has not reported{for_time(snapshot, ready.get('lastHeartbeatTime'))}"
        causes.append(Cause(says, (condition_text(ready), *_lease(snapshot, node)), _kubelet(node)))
    elif ready.get("status") != "True":
        causes.append(Cause("its kubelet says that it is not ready", (condition_text(ready),), _step(node, ready)))
    for kind, step in _PRESSURES.items():
        condition = get_condition(node, kind)
        if condition is not None and condition.get("status") == "True":
            causes.append(
                Cause(f"{kind}{for_time(snapshot, condition.get('lastTransitionTime'))}", (condition_text(condition),), step)
            )
    broken = bool(causes)
    if nodes.is_unschedulable(node):
        causes.append(Cause("it is cordoned: no new pods are placed on it", step=f"kubectl uncordon {name_of(node)}"))
        causes += _drain(snapshot, node)
    causes += _taints(node)
    if broken:
        causes[0] = Cause(causes[0].says, (*causes[0].evidence, *warnings(snapshot, node)), causes[0].step)
    status = "Ready" if ready is not None and ready.get("status") == "True" else "NotReady"
    since = for_time(snapshot, (ready or {}).get("lastTransitionTime"))
    state = State.UNWELL if causes and (broken or nodes.is_unschedulable(node)) else State.WELL
    return Explanation(subject(node), "", state, f"{status}{since}", tuple(causes))


def _drain(snapshot: Snapshot, node: Object) -> list[Cause]:
    """Pods of a cordoned node that no eviction moves, because a budget lets none go."""
    found = []
    for pod in snapshot.all("Pod"):
        if pods.node_name(pod) != name_of(node) or not pods.is_active(pod) or pods.is_mirror(pod):
            continue
        names = blocking(snapshot, pod)
        if names:
            step = f"pybernetes why pdb/{names[0]}{flag(pod)}"
            says = f"a drain waits for {key_of(pod)}: poddisruptionbudget/{few(names)} allows no disruption"
            found.append(Cause(says, step=step))
    return found[:_SHOWN]


def _taints(node: Object) -> list[Cause]:
    return [
        Cause(f"taint {taint_text(each)} keeps pods off that do not tolerate it", step=_taint_step(node, each))
        for each in nodes.taints(node)
        if each.get("effect") != "PreferNoSchedule" and each.get("key") != "node.kubernetes.io/unschedulable"
    ]


def _taint_step(node: Object, taint: Object) -> str:
    key = str(taint.get("key"))
    if key == _CLOUD:
        return "the cloud controller manager removes it once it knows the node: check that it runs"
    if key.startswith("node.kubernetes.io/"):
        return "it goes by itself when the condition behind it does"
    return f"if it is not wanted: kubectl taint nodes {name_of(node)} {taint_text(taint)}-"


def _lease(snapshot: Snapshot, node: Object) -> tuple[str, ...]:
    lease = snapshot.get("Lease", name_of(node), nodes.LEASE_NAMESPACE)
    if lease is None:
        missing = snapshot.is_missing("Lease", name_of(node), nodes.LEASE_NAMESPACE)
        return ("it has no lease: the kubelet never connected, or its lease was deleted",) if missing else ()
    renewed = (lease.get("spec") or {}).get("renewTime")
    when = moment(renewed)
    late = when is not None and (snapshot.now - when).total_seconds() > _LEASE_SECONDS
    text = f"its lease was renewed {ago(snapshot, renewed) or 'never'} ago"
    return (f"{text}; the limit is {_LEASE_SECONDS}s" if late else text,)


def _kubelet(node: Object) -> str:
    return f"on {nodes.internal_ip(node) or name_of(node)}: does the machine run, does its kubelet, does it reach the API server?"


def _step(node: Object, ready: Object) -> str:
    message = str(ready.get("message") or "").lower()
    if "cni" in message or "network" in message:
        return "install or mend the CNI plugin: the kubelet finds no network configuration"
    if "runtime" in message or "pleg" in message:
        return f"check containerd on {name_of(node)}: systemctl status containerd"
    return f"look at the kubelet's log on {name_of(node)}: journalctl -u kubelet"

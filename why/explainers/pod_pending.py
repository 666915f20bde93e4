"""Pods without a node: gates, claims, nodes that refuse, and schedulers that do not look."""

from collections import defaultdict
from collections.abc import Sequence

from apimachinery.meta import Object, get_condition, name_of, namespace_of
from apimachinery.objects import claims as devices
from apimachinery.objects import pods, volumes
from controlplane.scheduler.config import DEFAULT_NAME
from controlplane.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from controlplane.scheduler.plugins.node_affinity import NodeAffinity
from controlplane.scheduler.plugins.node_ports import NodePorts
from controlplane.scheduler.plugins.node_resources_fit import NodeResourcesFit
from controlplane.scheduler.plugins.node_unschedulable import NodeUnschedulable
from controlplane.scheduler.plugins.pod_topology_spread import PodTopologySpread
from controlplane.scheduler.plugins.taint_toleration import TaintToleration
from why.cause import Cause, State
from why.scheduling import NodeSays, Verdict, judge, selector_text, wanted_text
from why.snapshot import Snapshot, moment
from why.words import ago, condition_text, few, flag, latest, plural

_FRESH = 10.0  # seconds: for so long a scheduler may simply not have come to the pod
_LEASES = "kube-system"


def pending_causes(snapshot: Snapshot, pod: Object) -> tuple[list[Cause], bool]:
    """The causes, and whether it is likely to be scheduled without anybody's help."""
    spec = pods.spec_of(pod)
    if pods.is_scheduling_gated(pod):
        names = few(str(gate.get("name")) for gate in spec.get("schedulingGates") or ())
        step = "ask the controller that sets the gate, or remove it from spec.schedulingGates"
        return [Cause(f"scheduling gates hold it back: {names}", step=step)], False
    other = str(spec.get("schedulerName") or DEFAULT_NAME)
    if other != DEFAULT_NAME:
        step = f"check that {other} runs, or remove spec.schedulerName"
        said = (*_condition(pod), *latest(snapshot, pod, "FailedScheduling"))
        return [Cause(f"it asks for the scheduler {other}, and nobody else will place it", said, step)], False
    unreadable = [kind for kind in ("Node", "Pod") if not snapshot.covers(kind)]
    if unreadable:
        return [_told_only(snapshot, pod, unreadable)], False
    claims = [*_claims(snapshot, pod), *_device_claims(snapshot, pod)]
    verdict = judge(snapshot, pod)
    if verdict.total == 0:
        return [*claims, Cause("the cluster has no nodes", step="kubectl get nodes; join a node to the cluster")], False
    if verdict.fitting:
        return [*claims, _nobody_looks(snapshot, pod, verdict)], not claims and _is_fresh(snapshot, pod)
    if verdict.upfront is not None:
        plugin = f"{verdict.upfront.plugin} refuses it before any node is asked: {verdict.upfront.message}"
        return [Cause(plugin, (verdict.message,), "" if claims else _describe(pod), tuple(claims))], False
    promised = str((pod.get("status") or {}).get("nominatedNodeName") or "")
    if promised:
        says = f"room is being made for it on node {promised}: pods of lower priority there were told to end"
        return [Cause(says, latest(snapshot, pod, "Preempted"), causes=(_refused(snapshot, pod, verdict, claims),))], True
    return [_refused(snapshot, pod, verdict, claims)], False


def _condition(pod: Object) -> tuple[str, ...]:
    condition = get_condition(pod, "PodScheduled")
    return (condition_text(condition),) if condition is not None and condition.get("status") != "True" else ()


def _describe(pod: Object) -> str:
    return f"kubectl describe pod {name_of(pod)}{flag(pod)}"


def _told_only(snapshot: Snapshot, pod: Object, unreadable: Sequence[str]) -> Cause:
    said = (*_condition(pod), *latest(snapshot, pod, "FailedScheduling"))
    what = " and ".join(f"{kind.lower()}s of the whole cluster" for kind in unreadable)
    return Cause(f"the scheduler's last word is all there is, for {what} were not read", said or ("it has said nothing yet",),
                 "run this as somebody who may list nodes, and pods in all namespaces")  # fmt: skip


def _is_fresh(snapshot: Snapshot, pod: Object) -> bool:
    created = moment((pod.get("metadata") or {}).get("creationTimestamp"))
    return created is None or (snapshot.now - created).total_seconds() < _FRESH


def _nobody_looks(snapshot: Snapshot, pod: Object, verdict: Verdict) -> Cause:
    """All filters accept a node: then the scheduler has not looked since that is so, or does not run."""
    says = f"{plural(len(verdict.fitting), 'node')} of {verdict.total} would take it now ({few(sorted(verdict.fitting))})"
    lease = snapshot.get("Lease", "kube-scheduler", _LEASES)
    evidence = [*_condition(pod), *latest(snapshot, pod, "FailedScheduling")]
    if lease is None:
        return Cause(says, tuple(evidence), "if this lasts, check that the scheduler runs")
    spec = lease.get("spec") or {}
    age = ago(snapshot, spec.get("renewTime"))
    evidence.append(f"scheduler {spec.get('holderIdentity') or '(nobody)'} renewed its lease {age or 'never'} ago")
    renewed, limit = moment(spec.get("renewTime")), float(spec.get("leaseDurationSeconds") or 15)
    if renewed is None or (snapshot.now - renewed).total_seconds() > limit:
        stopped = Cause("the scheduler does not run: its lease has expired", step="start the scheduler, and look at its log")
        return Cause(says, tuple(evidence), causes=(stopped,))
    return Cause(says, tuple(evidence), "the scheduler tries again within its back-off of at most 10s, or on the next change")


def _refused(snapshot: Snapshot, pod: Object, verdict: Verdict, claims: Sequence[Cause]) -> Cause:
    groups: dict[tuple[str, str], list[NodeSays]] = defaultdict(list)
    for each in verdict.refusals:
        groups[each.plugin, each.reason].append(each)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    causes = [_group(pod, plugin, reason, said, verdict.total, claims) for (plugin, reason), said in ordered]
    evidence = [f"the scheduler: {verdict.message}"] if verdict.message else []
    if verdict.preemption:
        evidence.append(
            verdict.preemption if verdict.preemption.startswith("preemption") else f"preemption: {verdict.preemption}"
        )
    evidence += _priority(pod)
    loose = () if any(plugin.startswith("Volume") for plugin, _ in groups) else tuple(claims)
    return Cause(f"no node accepts it: 0 of {verdict.total}", tuple(evidence), causes=(*causes, *loose))


def _priority(pod: Object) -> list[str]:
    spec = pods.spec_of(pod)
    named = f" ({spec['priorityClassName']})" if spec.get("priorityClassName") else ""
    return [f"priority {spec['priority']}{named}"] if spec.get("priority") else []


def _group(pod: Object, plugin: str, reason: str, said: Sequence[NodeSays], total: int, claims: Sequence[Cause]) -> Cause:
    wanted = ""
    if plugin == NodeResourcesFit.name:
        wanted = f"; the pod wants {wanted_text(pod)}"
    elif plugin == NodeAffinity.name and selector_text(pod):
        wanted = f"; the pod wants {selector_text(pod)}"
    figures: dict[str, list[str]] = defaultdict(list)
    for each in said:
        figures[each.figure].append(each.node)
    evidence = [f"{few(sorted(names))}: {figure}" for figure, names in figures.items() if figure][:10]
    if "" in figures:
        evidence.append(few(sorted(figures[""])))
    count = f"{len(said)} of {plural(total, 'node')}"
    told = f"{count} {reason.removeprefix('node(s) ')}" if reason.startswith("node(s) ") else f"{count}: {reason}"
    says = f"{told} [{plugin}]{wanted}"
    below = tuple(claims) if plugin.startswith("Volume") else ()
    return Cause(says, tuple(evidence), "" if below else _step(plugin, reason, said), below)


def _step(plugin: str, reason: str, said: Sequence[NodeSays]) -> str:
    node = sorted(each.node for each in said)[0]
    match plugin:
        case NodeResourcesFit.name if reason == "Too many pods":
            return "add a node, or raise maxPods of the kubelet"
        case NodeResourcesFit.name:
            resource = reason.removeprefix("Insufficient ")
            return f"lower the pod's requests of {resource}, free some by deleting or shrinking other pods, or add a node"
        case TaintToleration.name:
            taint = next((each.figure for each in said if each.figure), "")
            if taint.startswith("node.kubernetes.io/"):
                return f"pybernetes why node/{node}: the taint {taint} goes when the node is well again"
            return f"tolerate it in spec.tolerations, or remove it: kubectl taint nodes {node} {taint}-"
        case NodeUnschedulable.name:
            return f"kubectl uncordon {node}"
        case NodeAffinity.name:
            return "correct the pod's nodeSelector or nodeAffinity, or label a node: kubectl label node NAME KEY=VALUE"
        case NodePorts.name:
            return "use a Service in place of hostPort, or free the port on a node"
        case PodTopologySpread.name:
            return "add nodes in the emptiest domain, raise maxSkew, or use whenUnsatisfiable: ScheduleAnyway"
        case InterPodAffinity.name:
            return "compare the labels in the pod's podAffinity and podAntiAffinity with those of running pods"
    return f"kubectl describe node {node}"


def _claims(snapshot: Snapshot, pod: Object) -> list[Cause]:
    """Claims of the pod that are missing or not bound, each with its own chain."""
    from why.explainers import persistentvolumeclaim

    found = []
    namespace = namespace_of(pod)
    for volume in pods.spec_of(pod).get("volumes") or ():
        name = volumes.claim_name(pod, volume)
        claim = snapshot.get("PersistentVolumeClaim", name, namespace) if name else None
        if claim is not None:
            told = persistentvolumeclaim.explain(snapshot, claim, asked_by=pod)
            if told.state is not State.WELL:
                found.append(told.as_cause())
        elif name and snapshot.is_missing("PersistentVolumeClaim", name, namespace):
            step = (
                "it is made by the ephemeral volume controller" if volume.get("ephemeral") else f"create claim {name}{flag(pod)}"
            )
            says = f"persistentvolumeclaim/{name} does not exist (volume {volume.get('name')})"
            found.append(Cause(says, latest(snapshot, pod, "FailedBinding"), step))
    return found


def _device_claims(snapshot: Snapshot, pod: Object) -> list[Cause]:
    """ResourceClaims that are missing, or that others have reserved."""
    found = []
    namespace = namespace_of(pod)
    for entry in devices.entries_of(pod):
        try:
            wanted = devices.claim_of(pod, entry)
        except devices.ClaimError as error:
            step = "check resourceClaimTemplateName, and that the resource claim controller runs"
            found.append(Cause(str(error), latest(snapshot, pod, "FailedResourceClaimCreation"), step))
            continue
        if wanted is None:
            continue
        if snapshot.is_missing("ResourceClaim", wanted.claim, namespace):
            found.append(Cause(f"resourceclaim/{wanted.claim} does not exist", step=f"create it{flag(pod)}"))
    return found

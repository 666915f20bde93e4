"""What the scheduler's own plugins say of a pod, node by node, in a snapshot. Called by ``explainers.pod_pending``.

The real scheduler stops at a node's first refusal; here every filter is asked, so that mending one reason does not merely
uncover the next. Reasons are the plugins' words; the figures beside them are read off the same ``NodeInfo``.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from apimachinery.meta import Object, uid_of
from apimachinery.objects import pods, taints
from apimachinery.objects.affinity import matches_node_selector, node_affinity
from controlplane.scheduler.cache import Cache
from controlplane.scheduler.config import ProfileConfig
from controlplane.scheduler.cycle import Cycle, Decision, Refusal
from controlplane.scheduler.framework.cycle_state import CycleState
from controlplane.scheduler.framework.runtime import Profile
from controlplane.scheduler.framework.status import Code, Status
from controlplane.scheduler.framework.types import NodeInfo, PodInfo
from controlplane.scheduler.plugins import catalog
from controlplane.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from controlplane.scheduler.plugins.node_affinity import NodeAffinity
from controlplane.scheduler.plugins.node_ports import NodePorts
from controlplane.scheduler.plugins.node_resources_fit import NodeResourcesFit
from controlplane.scheduler.plugins.pod_topology_spread import PodTopologySpread, constraints
from controlplane.scheduler.plugins.taint_toleration import TaintToleration
from why.snapshot import Snapshot
from why.surroundings import SeenDevices, SeenStorage
from why.words import amount, few, pairs, plural


@dataclass(frozen=True, slots=True)
class NodeSays:
    """One node's refusal by one plugin; ``figure`` has the numbers or names behind the reason, and may be empty."""

    node: str
    reason: str
    plugin: str
    figure: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """``message`` is the scheduler's own sentence; ``preemption`` says whether driving out lesser pods would help."""

    total: int
    fitting: tuple[str, ...] = ()
    upfront: Status | None = None
    refusals: tuple[NodeSays, ...] = ()
    message: str = ""
    preemption: str = ""


@dataclass(frozen=True, slots=True)
class _View:
    """The scheduler's caches and plugins for one snapshot, and what they have said of pods that are alike."""

    cache: Cache
    profile: Profile
    verdicts: dict[bytes, Verdict]


@functools.lru_cache(maxsize=1)
def _view(snapshot: Snapshot) -> _View:
    return _View(_cache(snapshot), _profile(snapshot), {})


def judge(snapshot: Snapshot, pod: Object) -> Verdict:
    """Hold the pod against all nodes of the snapshot. Pods of one template are held against them once."""
    view, info = _view(snapshot), PodInfo(pod)
    key = _likeness(info)
    verdict = view.verdicts.get(key)
    if verdict is None:
        verdict = view.verdicts[key] = _judge(view.cache, view.profile, info)
    return verdict


def _likeness(pod: PodInfo) -> bytes:
    """Equal for pods that every plugin treats alike."""
    spec, status = pods.spec_of(pod.pod), pod.pod.get("status") or {}
    fields = ("affinity", "topologySpreadConstraints", "priority", "preemptionPolicy", "resourceClaims", "schedulingGates")
    held = [spec.get(field) for field in fields]
    more = [status.get("nominatedNodeName"), status.get("resourceClaimStatuses"), pod.claims, pod.labels, pod.namespace]
    return pod.signature + orjson.dumps([held, more], option=orjson.OPT_SORT_KEYS)


def _judge(cache: Cache, profile: Profile, info: PodInfo) -> Verdict:
    state = CycleState()
    total = cache.node_count()
    status, names, skipped = profile.pre_filter(state, info, cache) if total else (None, None, frozenset[str]())
    if status is not None and status.code is not Code.SKIP:
        return Verdict(total, upfront=status, message=Refusal(total, upfront=status).message())
    refusals: list[NodeSays] = []
    fitting = []
    for node in cache.nodes():
        if names is not None and node.name not in names:
            refusals.append(NodeSays(node.name, "node is not the one that the pod names", NodeAffinity.name, ""))
            continue
        said = [
            NodeSays(node.name, reason, status.plugin, _figure(cache, status.plugin, reason, info, node))
            for status in _refusals(profile, skipped, state, info, node)
            for reason in status.reasons
        ]
        refusals += said
        if not said:
            fitting.append(node.name)
    message, preemption = _decision(profile, cache, info) if total and not fitting else ("", "")
    return Verdict(total, tuple(fitting), None, tuple(refusals), message, preemption)


def _decision(profile: Profile, cache: Cache, pod: PodInfo) -> tuple[str, str]:
    """The whole cycle's own sentences: of the refusal, and of preemption."""
    cycle = Cycle(profile, cache)
    outcome = cycle.decide(pod)
    if isinstance(outcome, Decision):
        return "", ""
    found = cycle.preempt(pod, outcome)
    if isinstance(found, str):
        return outcome.message(), found
    victims = few(victim.key for victim in found.victims)
    return outcome.message(), f"preemption: evicting {victims} (lower priority) makes room on {found.node}"


def _refusals(profile: Profile, skipped: frozenset[str], state: CycleState, pod: PodInfo, node: NodeInfo) -> Sequence[Status]:
    asked = [each for each in (*profile.local_filters, *profile.global_filters) if each.name not in skipped]
    return [status for each in asked if (status := each.filter(state, pod, node)) is not None]


def _cache(snapshot: Snapshot) -> Cache:
    cache = Cache()
    for namespace in snapshot.all("Namespace"):
        cache.set_namespace(namespace)
    for node in snapshot.all("Node"):
        cache.set_node(node)
    for pod in snapshot.all("Pod"):
        if pods.node_name(pod) and not pods.is_terminal(pod) and uid_of(pod):
            cache.set_pod(pod)
    return cache


def _profile(snapshot: Snapshot) -> Profile:
    async def post(namespace: str, name: str, binding: Object) -> object:
        raise AssertionError("explanations bind nothing")

    return catalog.build(ProfileConfig(), post, SeenStorage(snapshot), devices=SeenDevices(snapshot))


def _figure(cache: Cache, plugin: str, reason: str, pod: PodInfo, node: NodeInfo) -> str:
    if plugin == PodTopologySpread.name:
        return _of_spread(cache, pod, node)
    figure = _FIGURES.get(plugin)
    return figure(reason, pod, node) if figure is not None else ""


def _of_resources(reason: str, pod: PodInfo, node: NodeInfo) -> str:
    resource = reason.removeprefix("Insufficient ")
    if resource == reason:
        return f"holds {plural(len(node.pods), 'pod')} of the {node.allowed_pods} that it allows"
    total, taken = node.allocatable.get(resource, 0), node.requested.get(resource, 0)
    if not total:
        return f"offers no {resource}"
    show = functools.partial(amount, resource)
    free = show(max(0, total - taken))
    return f"{free} free of {show(total)} ({show(taken)} requested by {plural(len(node.pods), 'pod')})"


def _of_taints(reason: str, pod: PodInfo, node: NodeInfo) -> str:
    taint = taints.first_untolerated(node.hard_taints, pod.tolerations, taints.HARD_EFFECTS)
    return taint_text(taint) if taint is not None else ""


def taint_text(taint: Mapping[str, Any]) -> str:
    """``key=value:Effect``, as kubectl writes it."""
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{taint.get('key')}{value}:{taint.get('effect')}"


def _of_affinity(reason: str, pod: PodInfo, node: NodeInfo) -> str:
    """The labels of ``nodeSelector`` that differ, or that the affinity's terms match none."""
    wanted = pods.spec_of(pod.pod).get("nodeSelector") or {}
    wrong = [
        f"{key} is {node.labels[key]}" if key in node.labels else f"no label {key}"
        for key, value in wanted.items()
        if node.labels.get(key) != value
    ]
    if wrong:
        return ", ".join(wrong)
    required = node_affinity(pod.pod).get("requiredDuringSchedulingIgnoredDuringExecution")
    if required and node.node is not None and not matches_node_selector(required, node.node):
        return f"matches no term of {_terms(required)}"
    return ""


def _terms(required: Object) -> str:
    """A node selector in one line."""
    terms = []
    for term in required.get("nodeSelectorTerms") or ():
        parts = (*(term.get("matchExpressions") or ()), *(term.get("matchFields") or ()))
        terms.append(
            " and ".join(f"{each.get('key')} {each.get('operator')} {each.get('values') or ''}".strip() for each in parts)
        )
    return " or ".join(terms)


def _of_ports(reason: str, pod: PodInfo, node: NodeInfo) -> str:
    holders = [other.key for other in node.pods.values() if pods.host_ports_conflict(pod.pod, other.pod)]
    wanted = ", ".join(f"{number}/{protocol}" for protocol, _, number in pod.ports)
    return f"host port {wanted} is held by {few(holders)}" if holders else ""


def _of_spread(cache: Cache, pod: PodInfo, node: NodeInfo) -> str:
    """How the matching pods are spread over the domains of each constraint."""
    told = []
    for each in constraints(pod, "DoNotSchedule"):
        if each.key not in node.labels:
            told.append(f"has no label {each.key}")
            continue
        counts = {
            other.labels[each.key]: 0 for other in cache.nodes() if each.key in other.labels and each.counts_node(pod, other)
        }
        for _, where in cache.pods_selected(each.selector, pod.namespace):
            if where.labels.get(each.key) in counts:
                counts[where.labels[each.key]] += 1
        here, least = counts.get(node.labels[each.key], 0), min(counts.values(), default=0)
        if here + each.own - least > each.max_skew:
            spread = few(f"{domain} {count}" for domain, count in sorted(counts.items()))
            told.append(f"maxSkew {each.max_skew} over {each.key}: pods per domain are {spread}")
    return "; ".join(told)


def _of_neighbours(reason: str, pod: PodInfo, node: NodeInfo) -> str:
    """The terms in question and the domain that the node is of."""
    terms = pod.affinity if "pod affinity" in reason else pod.anti_affinity if "pod anti-affinity" in reason else ()
    keys = dict.fromkeys(term.topology_key for term in terms)
    return ", ".join(f"{key} is {node.labels[key]}" if key in node.labels else f"has no label {key}" for key in keys)


_FIGURES: dict[str, Callable[[str, PodInfo, NodeInfo], str]] = {
    NodeResourcesFit.name: _of_resources,
    TaintToleration.name: _of_taints,
    NodeAffinity.name: _of_affinity,
    NodePorts.name: _of_ports,
    InterPodAffinity.name: _of_neighbours,
}


def wanted_text(pod: Object) -> str:
    """What the pod asks of a node, for the line above the figures."""
    info = PodInfo(pod)
    return ", ".join(f"{name} {amount(name, count)}" for name, count in info.requests.items())


def selector_text(pod: Object) -> str:
    return pairs(pods.spec_of(pod).get("nodeSelector") or {})

"""Which nodes should run the daemon, what to create and delete, and how an update proceeds. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from apimachinery import intstr
from apimachinery.meta import Object, clone, generation, is_deleting, labels_of, name_of, owner_reference
from apimachinery.objects import pods, taints
from apimachinery.objects.affinity import accepts_node
from apimachinery.objects.nodes import taints as taints_of
from controlplane.controllers.lib.history import REVISION_LABEL
from controlplane.controllers.lib.pod_control import from_template

BURST = 250
GENERATION_LABEL = "pod-template-generation"
_FIELD = "metadata.name"


def tolerations(template_spec: Mapping[str, Any]) -> list[Object]:
    """Daemons stay on nodes in trouble: they may be the cure."""
    added = [
        (taints.NOT_READY, taints.NO_EXECUTE),
        (taints.UNREACHABLE, taints.NO_EXECUTE),
        (taints.DISK_PRESSURE, taints.NO_SCHEDULE),
        (taints.MEMORY_PRESSURE, taints.NO_SCHEDULE),
        (taints.PID_PRESSURE, taints.NO_SCHEDULE),
        (taints.UNSCHEDULABLE, taints.NO_SCHEDULE),
    ]
    if template_spec.get("hostNetwork"):
        added.append((taints.NETWORK_UNAVAILABLE, taints.NO_SCHEDULE))
    listed: list[Object] = [dict(each) for each in template_spec.get("tolerations") or ()]
    for key, effect in added:
        toleration = {"key": key, "operator": "Exists", "effect": effect}
        if toleration not in listed:
            listed.append(toleration)
    return listed


def eligibility(owner: Mapping[str, Any], node: Object) -> tuple[bool, bool]:
    """(whether a pod should be started on the node, whether one that runs there may stay)."""
    spec = owner["spec"]["template"].get("spec") or {}
    if spec.get("nodeName") not in (None, "", name_of(node)) or not accepts_node({"spec": spec}, node):
        return False, False
    tolerated = tolerations(spec)
    listed = taints_of(node)
    starts = taints.first_untolerated(listed, tolerated, taints.HARD_EFFECTS) is None
    stays = taints.first_untolerated(listed, tolerated, frozenset({taints.NO_EXECUTE})) is None
    return starts, stays


def new_pod(owner: Object, node: str, digest: str) -> Object:
    """The daemon's pod for one node: the scheduler binds it, to that node only."""
    reference = owner_reference(owner, "apps/v1", "DaemonSet")
    template = clone(owner["spec"]["template"])
    pod = from_template(template, owner["metadata"]["namespace"], f"{name_of(owner)}-", reference)
    labels = pod["metadata"].setdefault("labels", {})
    labels[REVISION_LABEL] = digest
    labels[GENERATION_LABEL] = str(generation(owner))
    spec = pod["spec"]
    spec["tolerations"] = tolerations(spec)
    required = _pinned(spec, node)
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    affinity["requiredDuringSchedulingIgnoredDuringExecution"] = required
    return pod


def _pinned(spec: Mapping[str, Any], node: str) -> Object:
    """The template's own terms, each narrowed to the one node."""
    field_term = {"key": _FIELD, "operator": "In", "values": [node]}
    node_affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    held = (node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or [{}]
    return {"nodeSelectorTerms": [{**term, "matchFields": [field_term]} for term in held]}


def target_node(pod: Object) -> str:
    """The node a daemon's pod runs on, or was made for."""
    if pods.node_name(pod):
        return pods.node_name(pod)
    affinity = (pods.spec_of(pod).get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or ()
    for term in terms:
        for each in term.get("matchFields") or ():
            if each.get("key") == _FIELD and each.get("operator") == "In" and len(each.get("values") or ()) == 1:
                return str(each["values"][0])
    return ""


def by_node(mine: Iterable[Object]) -> dict[str, list[Object]]:
    found: dict[str, list[Object]] = {}
    for pod in mine:
        found.setdefault(target_node(pod), []).append(pod)
    return found


@dataclass(slots=True)
class Plan:
    """Nodes that need a pod, and pods that must go; ``failed`` are those among them that failed."""

    create: list[str] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)
    failed: list[Object] = field(default_factory=list)


def placement(owner: Object, nodes: Sequence[Object], mine: Sequence[Object], digest: str, now: datetime) -> Plan:
    """One pod on each eligible node; none elsewhere, none twice (but during a surge)."""
    plan = Plan()
    held = by_node(mine)
    surge = max_surge(owner, len(nodes))
    for node in nodes:
        on_node = held.pop(name_of(node), [])
        starts, stays = eligibility(owner, node)
        if not stays:
            plan.delete += [pod for pod in on_node if not is_deleting(pod)]
            continue
        living = [pod for pod in on_node if not is_deleting(pod)]
        broken = [pod for pod in living if pods.is_terminal(pod)]
        plan.failed += broken
        plan.delete += broken
        living = [pod for pod in living if not pods.is_terminal(pod)]
        if living:
            plan.delete += _doubles(owner, living, digest, now, surge=surge > 0)
        elif starts and not on_node:
            plan.create.append(name_of(node))
    for orphaned in held.values():  # made for nodes that are gone
        plan.delete += [pod for pod in orphaned if not is_deleting(pod) and not pods.node_name(pod)]
    return Plan(plan.create[:BURST], plan.delete[:BURST], plan.failed)


def _doubles(owner: Object, living: list[Object], digest: str, now: datetime, *, surge: bool) -> list[Object]:
    """All but the eldest; while surging, an old pod stays beside a new one until that is available."""
    if len(living) < 2:
        return []
    ordered = sorted(living, key=lambda pod: (pod["metadata"].get("creationTimestamp") or "", name_of(pod)))
    if not surge:
        return ordered[1:]
    fresh = [pod for pod in ordered if is_current(owner, pod, digest)]
    stale = [pod for pod in ordered if not is_current(owner, pod, digest)]
    doubled = fresh[1:] + stale[1:]
    if stale and fresh and (_is_available(owner, fresh[0], now) or not _is_available(owner, stale[0], now)):
        doubled.append(stale[0])
    return doubled


def is_current(owner: Object, pod: Object, digest: str) -> bool:
    """Made from the present template."""
    labels = labels_of(pod)
    return labels.get(REVISION_LABEL) == digest


def _is_available(owner: Object, pod: Object, now: datetime) -> bool:
    return pods.is_available(pod, int(owner["spec"].get("minReadySeconds") or 0), now)


def _rolling(owner: Object, field_name: str, default: int, total: int) -> int:
    rolling = (owner["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    value = rolling.get(field_name)
    return intstr.scaled(default if value is None else value, total, round_up=True)


def max_surge(owner: Object, total: int) -> int:
    return _rolling(owner, "maxSurge", 0, total) if is_rolling(owner) else 0


def is_rolling(owner: Object) -> bool:
    return ((owner["spec"].get("updateStrategy") or {}).get("type") or "RollingUpdate") == "RollingUpdate"


def update(owner: Object, nodes: Sequence[Object], mine: Sequence[Object], digest: str, now: datetime) -> Plan:
    """The next step of a rolling update: replace old pods while few enough are missing."""
    if not is_rolling(owner):
        return Plan()
    held = by_node(mine)
    wanted = [node for node in nodes if eligibility(owner, node)[0]]
    if max_surge(owner, len(wanted)) > 0:
        return _surge(owner, wanted, held, digest, now)
    budget = _rolling(owner, "maxUnavailable", 1, len(wanted))
    broken: list[Object] = []
    candidates: list[Object] = []
    for node in wanted:
        living = [pod for pod in held.get(name_of(node), []) if not is_deleting(pod)]
        fresh = [pod for pod in living if is_current(owner, pod, digest)]
        stale = [pod for pod in living if not is_current(owner, pod, digest)]
        if fresh:
            budget -= not _is_available(owner, fresh[0], now)
        elif stale and _is_available(owner, stale[0], now):
            candidates.append(stale[0])
        else:
            broken += stale  # nothing is lost by replacing it at once
            budget -= 1
    return Plan(delete=broken + candidates[: max(0, budget)])


def _surge(owner: Object, wanted: Sequence[Object], held: Mapping[str, list[Object]], digest: str, now: datetime) -> Plan:
    """New pods start beside old ones, at most ``maxSurge`` at a time; old ones go when theirs is available."""
    budget = max_surge(owner, len(wanted))
    plan = Plan()
    waiting = []
    for node in wanted:
        living = [pod for pod in held.get(name_of(node), []) if not is_deleting(pod)]
        fresh = [pod for pod in living if is_current(owner, pod, digest)]
        stale = [pod for pod in living if not is_current(owner, pod, digest)]
        if fresh and stale:
            if _is_available(owner, fresh[0], now):
                plan.delete.append(stale[0])
            else:
                budget -= 1
        elif stale and not fresh:
            if _is_available(owner, stale[0], now):
                waiting.append(name_of(node))
            else:
                plan.delete.append(stale[0])
    plan.create = waiting[: max(0, budget)]
    return plan


def status(owner: Object, nodes: Sequence[Object], mine: Sequence[Object], digest: str, now: datetime) -> Object:
    """The whole new status."""
    counts = dict.fromkeys(("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0)
    updated = available = 0
    held = by_node(mine)
    for node in nodes:
        starts, _ = eligibility(owner, node)
        on_node = held.get(name_of(node), [])
        if not starts:
            counts["numberMisscheduled"] += bool(on_node)
            continue
        counts["desiredNumberScheduled"] += 1
        if not on_node:
            continue
        counts["currentNumberScheduled"] += 1
        pod = max(on_node, key=lambda each: (not is_deleting(each), is_current(owner, each, digest), pods.is_ready(each)))
        if pods.is_ready(pod):
            counts["numberReady"] += 1
            available += _is_available(owner, pod, now)
        updated += is_current(owner, pod, digest)
    made: Object = {**counts, "observedGeneration": generation(owner)}
    unavailable = counts["desiredNumberScheduled"] - available
    extra = {"updatedNumberScheduled": updated, "numberAvailable": available, "numberUnavailable": unavailable}
    made.update({name: count for name, count in extra.items() if count})
    collisions = (owner.get("status") or {}).get("collisionCount")
    if collisions is not None:
        made["collisionCount"] = collisions
    return made

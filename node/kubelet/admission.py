"""Whether this node takes a pod that was bound to it. Pure: the scheduler normally made sure, but static pods, races and
hand-made bindings come here unchecked. Called by the pod manager for every new pod."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apimachinery.names import is_extended_resource
from apimachinery.objects import nodes, pods, qos
from apimachinery.objects.affinity import accepts_node
from apimachinery.objects.requests import PODS, add, amount, pod_requests
from apimachinery.objects.taints import NO_EXECUTE, NO_SCHEDULE, first_untolerated
from node.kubelet.eviction import ranking
from node.kubelet.sources.static_pods import is_static

Pod = Mapping[str, Any]
Node = Mapping[str, Any]


def refuse(
    pod: Pod,
    others: Iterable[Pod],
    allocatable: Mapping[str, str],
    node: Node | None = None,
    pressures: Sequence[str] = (),
    managed: Collection[str] = (),
) -> tuple[str, str] | None:
    """(reason, message) of the Failed status, or None to take it. ``others`` are the pods this node already has taken.

    ``node`` is None for as long as the API has not told it; what depends on it is then not asked. ``pressures`` are the
    conditions under which this node evicts. ``managed`` are resources of device plugins: the device manager, which gives them
    away one by one, judges of those.
    """
    if message := _under(pressures, pod):
        return ranking.REASON, message
    if message := _other_system(pod):
        return "PodOSNotSupported", message
    if node is not None and _wants_strict_groups(pod) and not _tells_groups(node):
        return "SupplementalGroupsPolicyNotSupported", "SupplementalGroupsPolicy=Strict is not supported in this node"
    taken = [other for other in others if not pods.is_terminal(other)]
    return _lacks(pod, taken, allocatable, node, managed) or _mismatch(pod, taken, node)


def _under(pressures: Sequence[str], pod: Pod) -> str | None:
    taint = {"key": ranking.PRESSURE_TAINT, "effect": NO_SCHEDULE}
    tolerated = first_untolerated([taint], pods.spec_of(pod).get("tolerations") or (), frozenset({NO_SCHEDULE})) is None
    return ranking.refusal(pod, pressures, qos.qos_class(pod), tolerated)


def _other_system(pod: Pod) -> str | None:
    system = (pods.spec_of(pod).get("os") or {}).get("name") or "linux"
    return None if system == "linux" else "Failed to admit pod as the OS field doesn't match node OS"


def _wants_strict_groups(pod: Pod) -> bool:
    return (pods.spec_of(pod).get("securityContext") or {}).get("supplementalGroupsPolicy") == "Strict"


def _tells_groups(node: Node) -> bool:
    """A runtime that does not know the policy would let the container have groups that nobody granted it."""
    return bool(((node.get("status") or {}).get("features") or {}).get("supplementalGroupsPolicy"))


def _mismatch(pod: Pod, taken: Iterable[Pod], node: Node | None) -> tuple[str, str] | None:
    if node is not None and not accepts_node(pod, node):
        return _failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
    if any(pods.host_ports_conflict(pod, other) for other in taken):
        return _failed("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    if node is not None and not is_static(pod):
        tolerations = pods.spec_of(pod).get("tolerations") or ()
        if first_untolerated(nodes.taints(node), tolerations, frozenset({NO_EXECUTE})) is not None:
            return _failed("TaintToleration", "node(s) had taints that the pod didn't tolerate")
    return None


def _failed(predicate: str, why: str) -> tuple[str, str]:
    return predicate, f"Pod was rejected: Predicate {predicate} failed: {why}"


def _lacks(
    pod: Pod, taken: Iterable[Pod], allocatable: Mapping[str, str], node: Node | None, managed: Collection[str]
) -> tuple[str, str] | None:
    """Extended resources are counted by the node object alone; one that it does not have is not this kubelet's to judge."""
    extended: Mapping[str, str] = ((node or {}).get("status") or {}).get("allocatable") or {}
    used: dict[str, int] = {}
    count = 0
    for other in taken:
        add(used, pod_requests(other))
        count += 1
    limit = amount(PODS, allocatable.get(PODS, "110"))
    if count + 1 > limit:
        return "OutOfpods", _message(PODS, 1, count, limit)
    offered = {**allocatable, **extended}
    names = [name for name in pod_requests(pod) if not is_extended_resource(name) or (name in extended and name not in managed)]
    found = short_of(pod, used, offered, names)
    return (f"OutOf{found.name}", _message(found.name, found.requested, found.used, found.capacity)) if found else None


@dataclass(frozen=True, slots=True)
class Shortage:
    """One resource of which there is not enough, in its own unit."""

    name: str
    requested: int
    used: int
    capacity: int


def short_of(pod: Pod, used: Mapping[str, int], offered: Mapping[str, str], names: Iterable[str]) -> Shortage | None:
    """The first of those resources that ``pod`` requests more of than is left."""
    requested = pod_requests(pod)
    for name in names:
        capacity = amount(name, offered.get(name, "0"))
        if requested.get(name, 0) and used.get(name, 0) + requested[name] > capacity:
            return Shortage(name, requested[name], used.get(name, 0), capacity)
    return None


def _message(name: str, wanted: int, used: int, available: int) -> str:
    return f"Pod was rejected: Node didn't have enough resource: {name}, requested: {wanted}, used: {used}, capacity: {available}"

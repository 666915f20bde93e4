"""What a pod has been given, what it now asks for, and how one becomes the other. Pure; ``allocations`` and ``actuator`` call it.

Three things differ while a resize is under way: what the spec asks for, what this node has *allocated* (and counts), and what
has been *actuated* in the runtime.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from apimachinery import quantity
from apimachinery.objects import pods, qos
from apimachinery.objects.requests import CPU, MEMORY, add, pod_requests
from node.kubelet import admission
from node.kubelet.sources.static_pods import is_static

PENDING, IN_PROGRESS = "PodResizePending", "PodResizeInProgress"
DEFERRED, INFEASIBLE, ERROR = "Deferred", "Infeasible", "Error"
_RESIZABLE = (CPU, MEMORY)
_MEMORY = 'Memory Manager policy "Static"'

Pod = Mapping[str, Any]
Container = Mapping[str, Any]
Resources = Mapping[str, Mapping[str, Any]]
"""``{"requests": {"cpu": "1"}, "limits": {...}}`` of one container, CPU and memory alone."""
ByContainer = Mapping[str, Resources]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why what is asked for is not allocated: ``Deferred`` may come later, ``Infeasible`` never on this node."""

    reason: str
    message: str


def _never(pod: Pod, container: Container) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Fixed:
    """What cannot change while a container runs: CPUs and memory that it owns, and how far it may swap."""

    cpus: bool = False
    memory: bool = False
    swaps: Callable[[Pod, Container], bool] = _never


def resizable(pod: Pod) -> Iterator[Container]:
    """Containers that a resize may concern: those that run for long."""
    yield from pods.long_running_containers(pod)


def resources_of(container: Container) -> Resources:
    given = container.get("resources") or {}
    return {
        field: {name: str(given[field][name]) for name in _RESIZABLE if name in (given.get(field) or {})}
        for field in ("requests", "limits")
    }


def asked(pod: Pod) -> ByContainer:
    """By container, as the spec says."""
    return {str(each["name"]): resources_of(each) for each in resizable(pod)}


def same(one: Resources, other: Resources) -> bool:
    """Equal as amounts: ``1`` is ``1000m``."""
    return all(_amounts(one, field) == _amounts(other, field) for field in ("requests", "limits"))


def _amounts(resources: Resources, field: str) -> dict[str, int]:
    return {name: quantity.parse(text).nanos for name, text in (resources.get(field) or {}).items()}


def view(pod: Pod, given: ByContainer) -> Pod:
    """The pod with those resources in place of what its spec asks for: what everything else on the node sees."""
    spec = pods.spec_of(pod)
    changed: dict[str, Any] = {}
    for field in ("initContainers", "containers"):
        listed = [with_resources(each, given.get(str(each["name"]))) for each in spec.get(field) or ()]
        if any(new is not old for new, old in zip(listed, spec.get(field) or (), strict=True)):
            changed[field] = listed
    return {**pod, "spec": {**spec, **changed}} if changed else pod


def with_resources(container: Container, given: Resources | None) -> Container:
    """The container with CPU and memory as ``given``; None leaves it as it is."""
    if given is None or same(given, resources_of(container)):
        return container
    resources = dict(container.get("resources") or {})
    for field in ("requests", "limits"):
        kept = {name: text for name, text in (resources.get(field) or {}).items() if name not in _RESIZABLE}
        merged = {**kept, **(given.get(field) or {})}
        if merged:
            resources[field] = merged
        else:
            resources.pop(field, None)
    return {**container, "resources": resources}


def refuse(pod: Pod, others: Iterable[Pod], allocatable: Mapping[str, str], given: ByContainer, fixed: Fixed) -> Refusal | None:
    """Whether the node can give what the spec asks for, beside what ``others`` have been given; None if it can. ``given``:
    what the pod has been given itself."""
    if is_static(pod):
        return Refusal(INFEASIBLE, "In-place resize of static-pods is not supported")
    if refused := _unchangeable(pod, given, fixed):
        return refused
    if lacking := admission.short_of(pod, {}, allocatable, (MEMORY, CPU)):
        what = f"{lacking.name}, requested: {lacking.requested}, capacity: {lacking.capacity}"
        return Refusal(INFEASIBLE, f"Node didn't have enough capacity: {what}")
    used: dict[str, int] = {}
    for other in others:
        if not pods.is_terminal(other):
            add(used, pod_requests(other))
    if lacking := admission.short_of(pod, used, allocatable, (CPU, MEMORY)):
        what = f"{lacking.name}, requested: {lacking.requested}, used: {lacking.used}, capacity: {lacking.capacity}"
        return Refusal(DEFERRED, f"Node didn't have enough resource: {what}")
    return None


def _unchangeable(pod: Pod, given: ByContainer, fixed: Fixed) -> Refusal | None:
    before = view(pod, given)
    for name, container in {str(each["name"]): each for each in resizable(pod)}.items():
        held = next(each for each in resizable(before) if each["name"] == name)
        if _requests(container, MEMORY) == _requests(held, MEMORY) or _restarts_for(container, MEMORY):
            continue
        if fixed.swaps(pod, container) or fixed.swaps(before, held):
            return Refusal(INFEASIBLE, "In-place resize of containers with swap is not supported.")
    if qos.qos_class(pod) != qos.GUARANTEED:
        return None
    for resource, owned, manager in ((CPU, fixed.cpus, 'CPU Manager policy "static"'), (MEMORY, fixed.memory, _MEMORY)):
        changed = any(
            _requests(one, resource) != _requests(other, resource)
            for one, other in zip(resizable(pod), resizable(before), strict=True)
        )
        if owned and changed:
            return Refusal(INFEASIBLE, f"Resize is infeasible for Guaranteed Pods alongside {manager}")
    return None


def _requests(container: Container, resource: str) -> int | None:
    return _amounts(resources_of(container), "requests").get(resource)


def _restarts_for(container: Container, resource: str) -> bool:
    policies = container.get("resizePolicy") or ()
    return any(each["resourceName"] == resource and each.get("restartPolicy") == "RestartContainer" for each in policies)


def restarts(container: Container, before: Resources, after: Resources) -> bool:
    """Whether the change needs a restart of the container by its own resizePolicy."""
    policies = {each["resourceName"]: each.get("restartPolicy") for each in container.get("resizePolicy") or ()}
    changed = {
        name
        for field in ("requests", "limits")
        for name in _RESIZABLE
        if _amounts(before, field).get(name) != _amounts(after, field).get(name)
    }
    return any(policies.get(name) == "RestartContainer" for name in changed)


def envelope(before: Pod, after: Pod) -> Pod:
    """The pod with the larger of both for each container: its cgroup holds both sides of a resize. A limit that one side
    does not have is none."""
    other = asked(before)
    return view(after, {name: _larger(resources, other.get(name, resources)) for name, resources in asked(after).items()})


def _larger(one: Resources, other: Resources) -> Resources:
    made: dict[str, dict[str, Any]] = {}
    for field in ("requests", "limits"):
        first, second = one.get(field) or {}, other.get(field) or {}
        names: Collection[str] = first.keys() & second.keys() if field == "limits" else first.keys() | second.keys()
        made[field] = {name: max((side[name] for side in (first, second) if name in side), key=_nanos) for name in names}
    return made


def _nanos(text: Any) -> int:
    return quantity.parse(text).nanos

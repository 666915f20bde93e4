"""disruption: counts for each PodDisruptionBudget how many of its pods may be evicted right now.

The eviction endpoint of the API server refuses by these counts; `kubectl drain` waits for them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from apimachinery import intstr
from apimachinery.gvk import GroupVersionResource
from apimachinery.labels import from_label_selector
from apimachinery.meta import (
    Object,
    clone,
    controller_of,
    generation,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
    set_condition,
    split_key,
    uid_of,
)
from apimachinery.objects import pods
from apimachinery.resources import DEPLOYMENTS, POD_DISRUPTION_BUDGETS, PODS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS
from apimachinery.times import parse_time
from client.lister import Lister
from controlplane.controllers.controller import Environment, Loop
from controlplane.controllers.lib.replicas import same_status

_GRACE = timedelta(minutes=2)
"""An evicted pod that is still there after this time was not deleted after all."""

Scale = Callable[[Object], int | None]
"""The wanted replicas behind a pod, by its controllers; None for a pod without one."""


@dataclass(frozen=True, slots=True)
class Counts:
    expected: int
    desired: int


def selects(budget: Mapping[str, Any], pod: Object) -> bool:
    """An absent selector selects nothing, an empty one every pod of the namespace."""
    selector = budget["spec"].get("selector")
    return selector is not None and from_label_selector(selector).matches(labels_of(pod))


def counts(budget: Mapping[str, Any], covered: Sequence[Object], scale: Scale) -> Counts:
    """How many pods there should be, and how many of them must stay healthy."""
    spec = budget["spec"]
    if spec.get("maxUnavailable") is not None:
        expected = expected_scale(covered, scale)
        allowed = intstr.scaled(spec["maxUnavailable"], expected, round_up=True)
        return Counts(expected, max(0, expected - allowed))
    least = spec.get("minAvailable")
    if isinstance(least, str):
        expected = expected_scale(covered, scale)
        return Counts(expected, intstr.scaled(least, expected, round_up=True))
    return Counts(len(covered), 1 if least is None else int(least))


def expected_scale(covered: Iterable[Object], scale: Scale) -> int:
    """The sum over the distinct controllers behind the pods; pods of nobody do not count."""
    found: dict[str, int] = {}
    for pod in covered:
        reference = controller_of(pod)
        replicas = scale(pod) if reference is not None else None
        if reference is not None and replicas is not None:
            found[reference["uid"]] = replicas
    return sum(found.values())


def still_disrupted(budget: Mapping[str, Any], covered: Iterable[Object], now: datetime) -> dict[str, str]:
    """Pods that the eviction endpoint let go and whose deletion has not been seen yet."""
    held = (budget.get("status") or {}).get("disruptedPods") or {}
    present = {name_of(pod) for pod in covered if not is_deleting(pod)}
    return {name: when for name, when in held.items() if name in present and now - parse_time(when) < _GRACE}


def next_status(budget: Mapping[str, Any], covered: Sequence[Object], scale: Scale, now: datetime) -> Object:
    """The whole new status."""
    wanted = counts(budget, covered, scale)
    disrupted = still_disrupted(budget, covered, now)
    healthy = sum(pods.is_ready(pod) and not is_deleting(pod) and name_of(pod) not in disrupted for pod in covered)
    allowed = max(0, healthy - wanted.desired) if wanted.expected > 0 else 0
    holder: Object = {"status": {"conditions": clone({"c": (budget.get("status") or {}).get("conditions") or []})["c"]}}
    reason = "SufficientPods" if allowed else "InsufficientPods"
    stamps = {"observedGeneration": generation(budget)}
    set_condition(holder, "DisruptionAllowed", str(allowed > 0), now=now, reason=reason, stamps=stamps)  # type: ignore[arg-type]
    status: Object = {
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": wanted.desired,
        "expectedPods": wanted.expected,
        "observedGeneration": generation(budget),
        "conditions": holder["status"]["conditions"],
    }
    if disrupted:
        status["disruptedPods"] = disrupted
    return status


class DisruptionController:
    """One loop over budgets; woken by them and by the pods they cover."""

    name = "disruption-controller"

    def __init__(self, env: Environment, workers: int = 2) -> None:
        self._client, self._clock = env.client, env.clock
        self._budgets = env.watch(POD_DISRUPTION_BUDGETS)
        self._pods = env.watch(PODS)
        kinds = {
            "ReplicaSet": REPLICA_SETS,
            "Deployment": DEPLOYMENTS,
            "StatefulSet": STATEFUL_SETS,
            "ReplicationController": REPLICATION_CONTROLLERS,
        }
        self._owners = {kind: self._lister(env, resource) for kind, resource in kinds.items()}
        self._loop = Loop(self.name, self.reconcile, env, workers)
        add = self._loop.add_object
        self._budgets.add_handler(on_add=add, on_update=lambda old, new: add(new))
        self._pods.add_handler(on_add=self._pod_changed, on_update=self._pod_updated, on_delete=self._pod_changed)

    def _lister(self, env: Environment, resource: GroupVersionResource) -> Lister:
        informer = env.watch(resource)
        informer.add_handler(on_update=self._owner_updated)
        return informer.lister

    async def run(self) -> None:
        await self._loop.run()

    def _pod_changed(self, pod: Object) -> None:
        for budget in self._budgets.lister.list(namespace_of(pod)):
            if selects(budget, pod):
                self._loop.add_object(budget)

    def _pod_updated(self, old: Object, new: Object) -> None:
        if labels_of(old) != labels_of(new):
            self._pod_changed(old)
        self._pod_changed(new)

    def _owner_updated(self, old: Object, new: Object) -> None:
        if old["spec"].get("replicas") != new["spec"].get("replicas"):
            for budget in self._budgets.lister.list(namespace_of(new)):
                self._loop.add_object(budget)

    async def reconcile(self, key: str) -> float | None:
        namespace, name = split_key(key)
        cached = self._budgets.lister.get(name, namespace)
        if cached is None or is_deleting(cached):
            return None
        covered = [pod for pod in self._pods.lister.list(namespace) if selects(cached, pod) and not pods.is_terminal(pod)]
        status = next_status(cached, covered, self._scale, self._clock.now())
        if not same_status(cached.get("status"), status):
            budget = clone(cached)
            budget["status"] = status
            await self._client.update_status(POD_DISRUPTION_BUDGETS, budget)
        return _GRACE.total_seconds() if status.get("disruptedPods") else None

    def _scale(self, pod: Object) -> int | None:
        """A Deployment's number counts, not that of the ReplicaSet between: a rollout must not change the budget."""
        owner = self._owner(pod)
        if owner is None:
            return None
        above = self._owner(owner) if owner.get("kind") == "ReplicaSet" else None
        replicas = (above or owner)["spec"].get("replicas")
        return 1 if replicas is None else int(replicas)

    def _owner(self, obj: Object) -> Object | None:
        reference = controller_of(obj)
        lister = self._owners.get(reference["kind"]) if reference is not None else None
        owner = lister.get(reference["name"], namespace_of(obj)) if lister is not None and reference is not None else None
        return owner if owner is not None and reference is not None and uid_of(owner) == reference["uid"] else None

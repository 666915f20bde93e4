"""The next step of a StatefulSet: which pod to create or delete, in order. Pure; repeated until nothing is left to do."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from apimachinery import intstr
from apimachinery.meta import Object, generation, is_deleting
from apimachinery.objects import pods
from controlplane.controllers.statefulset.pods import ordinal, replicas_of, revision_of, start_of


@dataclass(frozen=True, slots=True)
class Revisions:
    """Names of the revision that pods come from and of the one they are going to."""

    current: str
    update: str


@dataclass(slots=True)
class Plan:
    """``create`` maps ordinals to revision names. Deleted pods come back by themselves if they are still wanted."""

    create: dict[int, str] = field(default_factory=dict)
    delete: list[Object] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.create or self.delete)


def is_parallel(owner: Mapping[str, Any]) -> bool:
    return bool(owner["spec"].get("podManagementPolicy") == "Parallel")


def _strategy(owner: Mapping[str, Any]) -> tuple[str, Mapping[str, Any] | None]:
    strategy = owner["spec"].get("updateStrategy") or {}
    return str(strategy.get("type") or "RollingUpdate"), strategy.get("rollingUpdate")


def partition(owner: Mapping[str, Any]) -> int:
    """Pods below this ordinal keep the current revision."""
    return int((_strategy(owner)[1] or {}).get("partition") or 0)


def revision_for(owner: Mapping[str, Any], number: int, revisions: Revisions) -> str:
    """The revision a new pod of that ordinal is made from."""
    kind, rolling = _strategy(owner)
    if kind != "RollingUpdate" or revisions.current == revisions.update:
        return revisions.update
    below = int((owner.get("status") or {}).get("currentReplicas") or 0) if rolling is None else partition(owner)
    return revisions.current if number < start_of(owner) + below else revisions.update


def is_healthy(owner: Mapping[str, Any], pod: Object, now: datetime) -> bool:
    """Running, ready for long enough, and not on its way out."""
    min_ready = int(owner["spec"].get("minReadySeconds") or 0)
    return pods.phase(pod) == "Running" and pods.is_available(pod, min_ready, now) and not is_deleting(pod)


def next_step(owner: Mapping[str, Any], members: Sequence[Object], revisions: Revisions, now: datetime) -> Plan:
    """Fill ordinals from below, remove surplus ones from above, then update from above: one at a time unless Parallel."""
    by_ordinal = {ordinal(pod): pod for pod in members}
    first, count = start_of(owner), replicas_of(owner)
    plan = Plan()
    if not _fill(owner, by_ordinal, range(first, first + count), revisions, now, plan):
        return plan
    surplus = sorted((pod for pod in members if not first <= ordinal(pod) < first + count), key=ordinal, reverse=True)
    if not _shrink(owner, surplus, now, plan):
        return plan
    if not plan:
        _update(
            owner, [by_ordinal[number] for number in range(first, first + count) if number in by_ordinal], revisions, now, plan
        )
    return plan


def _fill(
    owner: Mapping[str, Any],
    by_ordinal: Mapping[int, Object],
    wanted: range,
    revisions: Revisions,
    now: datetime,
    plan: Plan,
) -> bool:
    """Whether everything from below is as it should be, so that the next stage may begin."""
    parallel = is_parallel(owner)
    for number in wanted:
        pod = by_ordinal.get(number)
        if pod is None:
            plan.create[number] = revision_for(owner, number, revisions)
        elif is_deleting(pod):
            pass
        elif pods.is_terminal(pod):
            plan.delete.append(pod)  # it is made again once it is gone
        elif is_healthy(owner, pod, now):
            continue
        if not parallel:
            return False
    return True


def _shrink(owner: Mapping[str, Any], surplus: Sequence[Object], now: datetime, plan: Plan) -> bool:
    """Remove what is beyond the wanted number, highest first, each only when its predecessor is gone.

    An unhealthy pod holds this up, as it does growing, unless it is the lowest of the unhealthy ones.
    """
    if is_parallel(owner):
        plan.delete += [pod for pod in surplus if not is_deleting(pod)]
        return True
    if not surplus:
        return True
    highest = surplus[0]
    unhealthy = [pod for pod in surplus if not is_healthy(owner, pod, now)]
    if not is_deleting(highest) and (highest not in unhealthy or highest is unhealthy[-1]):
        plan.delete.append(highest)
    return False


def _update(owner: Mapping[str, Any], present: Sequence[Object], revisions: Revisions, now: datetime, plan: Plan) -> None:
    """Delete pods of other revisions from above, as many as may be missing at a time."""
    kind, rolling = _strategy(owner)
    if kind != "RollingUpdate":
        return
    value = (rolling or {}).get("maxUnavailable")
    budget = max(1, intstr.scaled(1 if value is None else value, replicas_of(owner), round_up=False))
    budget -= sum(not is_healthy(owner, pod, now) for pod in present)
    lowest = start_of(owner) + partition(owner)
    for pod in sorted(present, key=ordinal, reverse=True):
        if ordinal(pod) < lowest or is_deleting(pod) or revision_of(pod) == revisions.update:
            continue
        healthy = is_healthy(owner, pod, now)
        if healthy and budget <= 0:
            return
        plan.delete.append(pod)
        budget -= healthy
        if not healthy:
            return


def status(owner: Mapping[str, Any], members: Sequence[Object], revisions: Revisions, now: datetime) -> Object:
    """The whole new status. When everything runs the update revision, that becomes the current one."""
    first, count = start_of(owner), replicas_of(owner)
    living = [pod for pod in members if not pods.is_terminal(pod)]
    ready = [pod for pod in living if pods.phase(pod) == "Running" and pods.is_ready(pod)]
    available = [pod for pod in ready if is_healthy(owner, pod, now)]
    staying = [pod for pod in living if not is_deleting(pod) and first <= ordinal(pod) < first + count]
    current = sum(revision_of(pod) == revisions.current for pod in staying)
    updated = sum(revision_of(pod) == revisions.update for pod in staying)
    names = (revisions.current, revisions.update)
    if _strategy(owner)[0] == "RollingUpdate" and updated == len(living) == len(ready) == count:
        names, current = (revisions.update, revisions.update), updated
    made: Object = {
        "observedGeneration": generation(owner),
        "replicas": len(living),
        "currentRevision": names[0],
        "updateRevision": names[1],
        "collisionCount": (owner.get("status") or {}).get("collisionCount") or 0,
        "availableReplicas": len(available),
    }
    counts = {"readyReplicas": len(ready), "currentReplicas": current, "updatedReplicas": updated}
    made.update({name: number for name, number in counts.items() if number})
    return made

"""The sizes of ReplicaSets: pure rules from (deployment, new set, old sets) to a list of new sizes.

``controller`` picks the rule and performs the answer. Rules see specs for what is wanted and statuses for what is
available, so acting twice on one state gives the same sizes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from apimachinery.meta import Object, annotations_of
from controlplane.controllers.deployment.facts import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    Deployment,
    active,
    age_key,
    max_surge,
    max_unavailable,
    oldest_first,
    others,
    reported,
    strategy,
    total,
    wanted,
)


@dataclass(frozen=True, slots=True)
class Resize:
    """Set one ReplicaSet's replicas; equal to what it has when only its annotations need refreshing."""

    replica_set: Object
    replicas: int


def initial_size(deployment: Deployment, sets: Sequence[Object], new: Object | None) -> int:
    """How large the new set may be now: all that is wanted, or what ``maxSurge`` leaves room for.

    Pods that a set is still to delete take room: upstream counts what sets are told, and surges further for a moment when the
    new set makes its pods sooner than the old one deletes.
    """
    if strategy(deployment) != "RollingUpdate":
        return wanted(deployment)
    held = wanted(new) if new is not None else 0
    room = wanted(deployment) + max_surge(deployment) - sum(map(_present, sets))
    return held + min(room, wanted(deployment) - held) if room > 0 else held


def _present(replica_set: Object) -> int:
    """Pods that there are or will be, terminating ones aside."""
    return max(wanted(replica_set), reported(replica_set, "replicas"))


def grow_new(deployment: Deployment, new: Object, old: Sequence[Object]) -> list[Resize]:
    """First half of a rolling update: bring the new set towards the wanted size (or down to it)."""
    if wanted(new) == wanted(deployment):
        return []
    if wanted(new) > wanted(deployment):
        return [Resize(new, wanted(deployment))]
    size = initial_size(deployment, [*old, new], new)
    return [Resize(new, size)] if size != wanted(new) else []


def shrink_old(deployment: Deployment, new: Object, old: Sequence[Object]) -> list[Resize]:
    """Second half: take pods from old sets, unhealthy ones first, while enough stay available.

    Unavailable pods of the new set count as lost already, so that a broken template cannot drain the old sets.
    """
    if total(old) == 0:
        return []
    minimum = wanted(deployment) - max_unavailable(deployment)
    new_unavailable = wanted(new) - reported(new, "availableReplicas")
    spare = total([*old, new]) - minimum - new_unavailable
    if spare <= 0:
        return []
    sizes = {each["metadata"]["uid"]: wanted(each) for each in old}
    _drop_unhealthy(old, sizes, spare)
    _drop_healthy(old, sizes, sum(map(_surely_available, [*old, new])) - minimum)
    return [Resize(each, size) for each in old if (size := sizes[each["metadata"]["uid"]]) != wanted(each)]


def _surely_available(replica_set: Object) -> int:
    """A set that was made smaller a moment ago still reports pods that it is about to delete."""
    return min(reported(replica_set, "availableReplicas"), wanted(replica_set))


def _drop_unhealthy(old: Sequence[Object], sizes: dict[str, int], budget: int) -> None:
    for each in oldest_first(old):
        uid = each["metadata"]["uid"]
        unhealthy = sizes[uid] - reported(each, "availableReplicas")
        cut = min(budget, max(0, unhealthy))
        sizes[uid] -= cut
        budget -= cut


def _drop_healthy(old: Sequence[Object], sizes: dict[str, int], budget: int) -> None:
    for each in oldest_first(old):
        if budget <= 0:
            return
        uid = each["metadata"]["uid"]
        cut = min(budget, sizes[uid])
        sizes[uid] -= cut
        budget -= cut


def is_scaling(deployment: Deployment, sets: Sequence[Object]) -> bool:
    """Whether ``spec.replicas`` changed since the sets were last sized: then scale before rolling on."""
    for each in active(sets):
        desired = annotations_of(each).get(DESIRED_REPLICAS)
        if desired is not None and desired.isdecimal() and int(desired) != wanted(deployment):
            return True
    return False


def scale(deployment: Deployment, new: Object | None, sets: Sequence[Object]) -> list[Resize]:
    """Sizes after a change of ``spec.replicas``, also while paused or in the middle of a rollout."""
    old = others(sets, new)
    sole = _active_or_latest(new, old)
    if sole is not None:
        return [Resize(sole, wanted(deployment))] if wanted(sole) != wanted(deployment) else []
    if _is_saturated(deployment, new):
        return [Resize(each, 0) for each in active(old)]
    if strategy(deployment) != "RollingUpdate":
        return []
    return _scale_proportionally(deployment, active(sets))


def _active_or_latest(new: Object | None, old: Sequence[Object]) -> Object | None:
    """The one set that has pods; with none, the newest; with several, None."""
    running = active([*old, *([new] if new is not None else [])])
    if len(running) > 1:
        return None
    if running:
        return running[0]
    if new is not None:
        return new
    return max(old, key=age_key, default=None)


def _is_saturated(deployment: Deployment, new: Object | None) -> bool:
    """The new set already wants, and has available, everything."""
    if new is None:
        return False
    desired = annotations_of(new).get(DESIRED_REPLICAS, "")
    size = wanted(deployment)
    return wanted(new) == size and desired == str(size) and reported(new, "availableReplicas") == size


def _scale_proportionally(deployment: Deployment, sets: list[Object]) -> list[Resize]:
    """Share the difference among the sets by their size; rounding leftovers go to the largest."""
    size = wanted(deployment)
    allowed = size + max_surge(deployment) if size > 0 else 0
    to_add = allowed - total(sets)
    # Ties: growing favours newer sets, shrinking takes from older ones.
    sets = sorted(sets, key=age_key, reverse=to_add > 0)
    sets.sort(key=lambda each: -wanted(each))
    added, sizes = 0, []
    for each in sets:
        share = _share(deployment, each, to_add, added)
        added += share
        sizes.append(wanted(each) + share)
    if sizes and to_add:
        sizes[0] = max(0, sizes[0] + to_add - added)
    return [Resize(each, count) for each, count in zip(sets, sizes, strict=True)]


def _share(deployment: Deployment, each: Object, to_add: int, added: int) -> int:
    if wanted(each) == 0 or to_add in (0, added):
        return 0
    fraction, allowed = _fraction(deployment, each), to_add - added
    return min(fraction, allowed) if to_add > 0 else max(fraction, allowed)


def _fraction(deployment: Deployment, each: Object) -> int:
    """How much the set should change to keep its part of the whole."""
    size = wanted(deployment)
    if size == 0:
        return -wanted(each)
    before_text = annotations_of(each).get(MAX_REPLICAS, "")
    before = int(before_text) if before_text.isdecimal() else 0
    before = before or reported(deployment, "replicas")
    if before == 0:
        return 0
    ideal = wanted(each) * (size + max_surge(deployment)) / before
    return int(ideal + 0.5) - wanted(each)

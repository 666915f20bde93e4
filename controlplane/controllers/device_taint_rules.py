"""What DeviceTaintRules tell of their effect: the condition EvictionInProgress. Pure; ``device_taint_eviction`` calls it.

Texts are upstream's (``maybeUpdateRuleStatus``).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apimachinery.meta import Object, generation, get_condition, namespace_of, uid_of
from apimachinery.objects import claims, device_taints

EVICTION = "EvictionInProgress"
PERIOD_SECONDS = 10.0
"""The least time between two changes of one rule's condition."""


@dataclass(frozen=True, slots=True)
class Reach:
    """What a rule selects: published devices, allocated ones, and the pods that would go if it were to evict."""

    published: int = 0
    allocated: int = 0
    pods: Sequence[Object] = field(default=(), repr=False)


def reach(rule: Mapping[str, Any], slices: Iterable[Object], held: Iterable[tuple[Object, Collection[Object]]]) -> Reach:
    """``slices`` are the newest of their pools; ``held`` are allocated claims with the pods that use them and are not going."""
    published = sum(
        device_taints.selects(rule, *_place(each), str(device.get("name")))
        for each in slices
        for device in each["spec"].get("devices") or ()
    )
    allocated, found = 0, dict[str, Object]()
    for claim, pods in held:
        selected = [result for result in claims.results_of(claim) if device_taints.selects(rule, *claims.pool_key(result))]
        allocated += len(selected)
        if any(evicts(rule, result) for result in selected):
            found |= {uid_of(pod): pod for pod in pods}
    return Reach(published, allocated, tuple(found.values()))


def evicts(rule: Mapping[str, Any], result: Mapping[str, Any]) -> bool:
    """Whether the rule's taint, with the effect NoExecute, is not tolerated for ever by an allocated device that it selects."""
    taint = {**rule["spec"]["taint"], "effect": device_taints.NO_EXECUTE}
    return device_taints.tolerated_seconds(result.get("tolerations") or (), taint) is not None


def condition(rule: Mapping[str, Any], reached: Reach, evicted: int) -> Object:
    """The condition without its time. ``evicted`` pods went since the controller started."""
    effect, count = rule["spec"]["taint"].get("effect"), len(reached.pods)
    status, message = "False", ""
    namespaces = len({namespace_of(pod) for pod in reached.pods})
    if effect == device_taints.NO_EXECUTE:
        reason = "Completed" if evicted else "NotStarted"
        if count:
            status, reason = "True", "PodsPendingEviction"
            message = f"{_counted(count, 'pod needs', 'pods need')} to be evicted in {_namespaces(namespaces)}."
    elif effect == device_taints.NONE:
        reason = "NoEffect"
        message = (
            f"{_counted(reached.published, 'published device', 'published devices')} selected. "
            f"{_counted(reached.allocated, 'allocated device', 'allocated devices')} selected. "
            f"{_counted(count, 'pod', 'pods')} would be evicted in {_namespaces(namespaces)} if the effect was NoExecute. "
            "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
        )
    else:
        reason, message = "OtherEffect", "Eviction only happens for the NoExecute effect."
    if evicted:
        said = f"{_counted(evicted, 'pod', 'pods')} evicted since starting the controller."
        message = f"{message} {said}" if message else said
    return {
        "type": EVICTION,
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": generation(rule),
    }


def is_told(rule: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    held = get_condition(rule, EVICTION)
    return held is not None and all(held.get(name) == value for name, value in wanted.items())


def _place(each: Mapping[str, Any]) -> tuple[str, str]:
    spec = each["spec"]
    return str(spec.get("driver") or ""), str((spec.get("pool") or {}).get("name") or "")


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _namespaces(count: int) -> str:
    return "1 namespace" if count == 1 else f"{count} different namespaces"

"""Taints and tolerations: one matching rule for scheduler, kubelet admission and eviction."""

from collections.abc import Iterable, Mapping
from typing import Any

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
MEMORY_PRESSURE = "node.kubernetes.io/memory-pressure"
DISK_PRESSURE = "node.kubernetes.io/disk-pressure"
PID_PRESSURE = "node.kubernetes.io/pid-pressure"
NETWORK_UNAVAILABLE = "node.kubernetes.io/network-unavailable"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"

Taint = Mapping[str, Any]
Toleration = Mapping[str, Any]


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Effect and key match where given; ``Exists`` takes any value, ``Equal`` (the default) the same one."""
    effect = toleration.get("effect")
    if effect and effect != taint.get("effect"):
        return False
    key = toleration.get("key")
    if key and key != taint.get("key"):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Exists":
        return True
    value, held = toleration.get("value") or "", taint.get("value") or ""
    if operator == "Equal":
        return bool(key) and value == held
    return _compares(operator, value, held)


def _compares(operator: str, value: str, held: str) -> bool:
    """``Gt`` and ``Lt`` compare the taint's integer with the toleration's."""
    try:
        wanted, found = int(value), int(held)
    except ValueError:
        return False
    return (operator == "Gt" and found > wanted) or (operator == "Lt" and found < wanted)


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    return any(tolerates(toleration, taint) for toleration in tolerations)


def first_untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration], effects: frozenset[str]) -> Taint | None:
    """The first taint with one of ``effects`` that nothing tolerates."""
    listed = list(tolerations)
    for taint in taints:
        if taint.get("effect") in effects and not is_tolerated(taint, listed):
            return taint
    return None


HARD_EFFECTS = frozenset({NO_SCHEDULE, NO_EXECUTE})


def eviction_delay(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> float | None:
    """How long a pod may stay under these ``NoExecute`` taints: seconds, 0 for at once, None for ever.

    The shortest ``tolerationSeconds`` among the tolerations in use decides, and a taint without any evicts at once.
    """
    listed = list(tolerations)
    delays: list[float] = []
    for taint in taints:
        if taint.get("effect") != NO_EXECUTE:
            continue
        used = [toleration for toleration in listed if tolerates(toleration, taint)]
        if not used:
            return 0
        delays += [max(0, each["tolerationSeconds"]) for each in used if each.get("tolerationSeconds") is not None]
    return min(delays) if delays else None


def same(one: Taint, other: Taint) -> bool:
    """A node holds at most one taint of each key and effect."""
    return one.get("key") == other.get("key") and one.get("effect") == other.get("effect")

"""Taints of devices and who tolerates them (KEP-5055). Asked by the scheduler and by the controller that evicts."""

from collections.abc import Iterable, Mapping
from typing import Any

NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "NoExecute"
REPELLING = (NO_SCHEDULE, NO_EXECUTE)
"""Effects that keep new claims away."""


def tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Whether one toleration is for the taint; an empty key or effect is for all."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return (toleration.get("value") or "") == (taint.get("value") or "")


def repels(device: Mapping[str, Any], tolerations: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a device has a taint that keeps a request away."""
    return any(
        taint.get("effect") in REPELLING and not any(tolerates(each, taint) for each in tolerations)
        for taint in device.get("taints") or ()
    )


def tolerated_seconds(tolerations: Iterable[Mapping[str, Any]], taint: Mapping[str, Any]) -> float | None:
    """How long the taint is tolerated: None for ever, 0 not at all."""
    matching = [each for each in tolerations if tolerates(each, taint)]
    if not matching:
        return 0.0
    limits = [float(each["tolerationSeconds"]) for each in matching if each.get("tolerationSeconds") is not None]
    return max(0.0, min(limits)) if limits else None

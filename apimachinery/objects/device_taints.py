"""Taints of devices and who tolerates them (KEP-5055). Asked by the scheduler and by the controller that evicts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

NO_SCHEDULE, NO_EXECUTE, NONE = "NoSchedule", "NoExecute", "None"
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


def selects(rule: Mapping[str, Any], driver: str, pool: str, device: str) -> bool:
    """Whether a DeviceTaintRule is for a device; what its selector does not say is for all, no selector for none."""
    selector = (rule.get("spec") or {}).get("deviceSelector")
    if selector is None:
        return False
    asked = (selector.get("driver"), selector.get("pool"), selector.get("device"))
    return all(not wanted or wanted == given for wanted, given in zip(asked, (driver, pool, device), strict=True))


def with_rules(slices: Iterable[dict[str, Any]], rules: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """ResourceSlices whose devices have the taints of rules besides their own; what no rule selects is passed on as it is."""
    for each in slices:
        spec = each.get("spec") or {}
        place = str(spec.get("driver") or ""), str((spec.get("pool") or {}).get("name") or "")
        devices = [_tainted(device, taints_of(rules, *place, str(device.get("name")))) for device in spec.get("devices") or ()]
        if all(new is old for new, old in zip(devices, spec.get("devices") or (), strict=True)):
            yield each
        else:
            yield {**each, "spec": {**spec, "devices": devices}}


def taints_of(rules: Iterable[Mapping[str, Any]], driver: str, pool: str, device: str) -> list[Mapping[str, Any]]:
    """The taints that rules put on a device."""
    return [rule["spec"]["taint"] for rule in rules if selects(rule, driver, pool, device)]


def _tainted(device: Mapping[str, Any], more: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return {**device, "taints": [*(device.get("taints") or ()), *more]} if more else device

"""How much of a device a request takes, where several may share one (KEP-5075). Amounts are in nanos.

Without a request a capacity's default is taken, or all of it; a request is rounded up to what the driver's policy lets be.
"""

from collections.abc import Mapping
from typing import Any

from apimachinery import quantity
from apimachinery.quantity import Quantity


def taken(
    driver: str, device: Mapping[str, Any], requests: Mapping[str, Any], used: Mapping[str, int]
) -> dict[str, Quantity] | None:
    """What the request takes of each capacity, by the device's own names; None if the device cannot give it.

    ``used`` is what others have of it already. Names without a domain are the driver's.
    """
    offered: Mapping[str, Mapping[str, Any]] = device.get("capacity") or {}
    known = {_full(driver, name): name for name in offered}
    wanted: dict[str, Quantity] = {}
    for name, amount in requests.items():
        mine = known.get(_full(driver, name))
        if mine is None:
            return None
        wanted[mine] = quantity.parse(amount)
    found = {}
    for name, capacity in offered.items():
        total = quantity.parse(capacity.get("value") or "0")
        policy = capacity.get("requestPolicy")
        amount = _rounded(wanted.get(name), total, policy)
        if violates(amount, policy) or amount.nanos < 0 or used.get(name, 0) + amount.nanos > total.nanos:
            return None
        found[name] = amount
    return found


def _full(driver: str, name: str) -> str:
    return name if "/" in name else f"{driver}/{name}"


def _rounded(wanted: Quantity | None, total: Quantity, policy: Mapping[str, Any] | None) -> Quantity:
    policy = policy or {}
    if wanted is None:
        return quantity.parse(policy["default"]) if policy.get("default") is not None else total
    valid = policy.get("validRange") or {}
    if valid.get("min") is not None:
        least = quantity.parse(valid["min"])
        if wanted < least:
            return least
        if valid.get("step") is None:
            return wanted
        step = quantity.parse(valid["step"])
        if step.nanos <= 0:
            return wanted
        steps = -(-(wanted.nanos - least.nanos) // step.nanos)
        return Quantity(least.nanos + steps * step.nanos, step.format)
    for each in policy.get("validValues") or ():
        if quantity.parse(each) >= wanted:
            return quantity.parse(each)
    return wanted


def violates(amount: Quantity, policy: Mapping[str, Any] | None) -> bool:
    """Whether the driver does not let so much be taken at once."""
    if not policy or (policy.get("default") is not None and quantity.parse(policy["default"]) == amount):
        return False
    valid = policy.get("validRange")
    if valid:
        if valid.get("max") is not None and amount > quantity.parse(valid["max"]):
            return True
        step = quantity.parse(valid["step"]).nanos if valid.get("step") is not None else 0
        least = quantity.parse(valid.get("min") or "0").nanos
        return bool(step > 0 and (amount.nanos - least) % step)
    values = policy.get("validValues") or ()
    return bool(values) and all(quantity.parse(each) != amount for each in values)

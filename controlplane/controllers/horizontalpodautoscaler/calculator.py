"""From figures to a number of replicas: upstream's ``ReplicaCalculator`` without its clients. Pure; ``evaluation`` calls it.

All figures and targets are in thousandths. Functions raise ValueError, with upstream's text, where nothing can be said.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from controlplane.controllers.horizontalpodautoscaler.pods import Groups

MOST = 2**31 - 1
_MOST_TOTAL = 2**63 - 1
NO_PODS = "no pods returned by selector while calculating replica count"
NO_FIGURES = "did not receive metrics for targeted pods (pods might be unready)"


@dataclass(frozen=True, slots=True)
class Tolerances:
    """How far from 1 the ratio of use to target may be before anything is done, as a fraction."""

    down: float = 0.1
    up: float = 0.1

    def hold(self, ratio: float) -> bool:
        return 1.0 - self.down <= ratio <= 1.0 + self.up


@dataclass(frozen=True, slots=True)
class Proposal:
    """``replicas``, and the figures that a status shows: a percentage of requests and an average or total in thousandths."""

    replicas: int
    value: int
    utilization: int | None = None


Ratio = Callable[[Mapping[str, int]], tuple[float, int | None, int]]
"""Pod to figure > ratio of use to target, percentage, average."""


def utilization(
    current: int, groups: Groups, figures: Mapping[str, int], requests: Mapping[str, int], target: int, tolerances: Tolerances
) -> Proposal:
    """``target`` is a percentage of what the pods ask for."""

    def ratio(counted: Mapping[str, int]) -> tuple[float, int | None, int]:
        known = [name for name in counted if name in requests]
        used, asked = sum(counted[name] for name in known), sum(requests[name] for name in known)
        if not asked:
            raise ValueError("no metrics returned matched known pods")
        percentage = min(_quotient(used * 100, asked), MOST)
        return percentage / target, percentage, _quotient(used, len(known))

    # a pod without a figure may use all that it asks for, or what the target allows where that is more
    absent = {name: requests.get(name, 0) * max(100, target) // 100 for name in groups.missing}
    return _of_pods(current, groups, figures, absent, ratio, tolerances)


def average(current: int, groups: Groups, figures: Mapping[str, int], target: int, tolerances: Tolerances) -> Proposal:
    """``target`` is an amount for each pod."""

    def ratio(counted: Mapping[str, int]) -> tuple[float, int | None, int]:
        mean = _quotient(sum(counted.values()), len(counted))
        return mean / target, None, mean

    return _of_pods(current, groups, figures, dict.fromkeys(groups.missing, target), ratio, tolerances)


def _of_pods(
    current: int,
    groups: Groups,
    figures: Mapping[str, int],
    absent: Mapping[str, int],
    ratio_of: Ratio,
    tolerances: Tolerances,
) -> Proposal:
    """Pods that say nothing are taken for what speaks against the change: idle before growing, ``absent`` before shrinking."""
    counted = {name: value for name, value in figures.items() if name not in groups.ignored | groups.unready}
    if not counted:
        raise ValueError(NO_FIGURES)
    ratio, percentage, mean = ratio_of(counted)
    growing_with_unready = bool(groups.unready) and ratio > 1.0
    if not growing_with_unready and not groups.missing:
        return Proposal(current if tolerances.hold(ratio) else bounded(ratio * groups.ready), mean, percentage)
    if ratio < 1.0:
        counted |= absent
    elif ratio > 1.0:
        counted |= dict.fromkeys(groups.missing, 0)
    if growing_with_unready:
        counted |= dict.fromkeys(groups.unready, 0)
    again, _, _ = ratio_of(counted)
    wanted = bounded(again * len(counted))
    turned = (ratio < 1.0 < again) or (ratio > 1.0 > again)
    backwards = (again < 1.0 and wanted > current) or (again > 1.0 and wanted < current)
    if tolerances.hold(again) or turned or backwards:
        wanted = current
    return Proposal(wanted, mean, percentage)


def total(current: int, ready: Callable[[], int], used: int, target: int, tolerances: Tolerances) -> Proposal:
    """A figure of something else, with a ``target`` for the whole. ``ready`` counts pods and is asked only if that matters."""
    ratio = used / target
    if current == 0:  # none to compare with: any use at all calls for one or more
        return Proposal(bounded(ratio), used)
    if tolerances.hold(ratio):
        return Proposal(current, used)
    return Proposal(bounded(ratio * ready()), used)


def shared(running: int, used: int, target: int, tolerances: Tolerances) -> Proposal:
    """A figure of something else, with a ``target`` for each of the ``running`` replicas."""
    ratio = used / (target * running) if running else math.inf
    wanted = running if tolerances.hold(ratio) else bounded(used / target)
    return Proposal(wanted, min(-(-used // running), _MOST_TOTAL) if running else used)


def summed(values: Iterable[int]) -> int:
    """The sum of a metric's series, no more than an int64 holds."""
    return min(sum(values), _MOST_TOTAL)


def bounded(amount: float) -> int:
    """Rounded up to what the field ``replicas`` can hold."""
    return MOST if amount >= MOST else math.ceil(amount)


def _quotient(number: int, divisor: int) -> int:
    """Cut towards zero: an adapter may serve what is negative."""
    return number // divisor if number >= 0 else -(-number // divisor)

"""How fast the size may follow the metrics: stabilization windows, policies, and the bounds of the autoscaler.

Pure but for :class:`History`, which ``controller`` keeps for each autoscaler. Times are seconds of one monotonic clock.
Upstream's ``normalizeDesiredReplicas`` and ``normalizeDesiredReplicasWithBehaviors``.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controlplane.controllers.horizontalpodautoscaler.calculator import MOST

_FACTOR, _LEAST = 2, 4
"""Without a behaviour, one step at most doubles, or reaches four."""

Rules = Mapping[str, Any]
_LOWER = "recent recommendations were lower than current one, applying the lowest recent recommendation"
_HIGHER = "recent recommendations were higher than current one, applying the highest recent recommendation"
_WITHIN = ("DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_FAST = ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate")
_TOO_MANY = ("TooManyReplicas", "the desired replica count is more than the maximum replica count")
_TOO_FAST_DOWN = ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate")
_TOO_FEW = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")


@dataclass(frozen=True, slots=True)
class Event:
    """``amount`` is what was recommended, or the number of replicas that came or went."""

    amount: int
    at: float


@dataclass(slots=True)
class History:
    """What one autoscaler remembers; gone with the process, as upstream's. What is too old for every window is dropped."""

    recommendations: list[Event] = field(default_factory=list)
    up: list[Event] = field(default_factory=list)
    down: list[Event] = field(default_factory=list)

    def begin(self, current: int, now: float) -> None:
        """The first look recommends what there is, so that a restart of the controller shrinks nothing at once."""
        if not self.recommendations:
            self.recommendations.append(Event(current, now))

    def note_change(self, behavior: Mapping[str, Any] | None, before: int, after: int, now: float) -> None:
        """After a rescale. Without a behaviour nobody asks for it."""
        if behavior is None:
            return
        events, rules = (self.up, behavior["scaleUp"]) if after > before else (self.down, behavior["scaleDown"])
        longest = max((policy["periodSeconds"] for policy in rules.get("policies") or ()), default=0)
        events[:] = [each for each in events if each.at >= now - longest]
        events.append(Event(abs(after - before), now))


@dataclass(frozen=True, slots=True)
class Bounds:
    """``spec.minReplicas``, ``spec.maxReplicas``, and ``--horizontal-pod-autoscaler-downscale-stabilization`` in seconds."""

    least: int
    most: int
    downscale_window: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What to set; ``able`` and ``limit`` are reason and message of the conditions AbleToScale and ScalingLimited."""

    replicas: int
    able: tuple[str, str]
    limited: bool
    limit: tuple[str, str]


def normalized(
    behavior: Mapping[str, Any] | None, bounds: Bounds, history: History, current: int, desired: int, now: float
) -> Outcome:
    """``desired`` held back as far as the rules want; it is added to the history."""
    if behavior is None:
        stable, able = _highest(history, desired, now - bounds.downscale_window, now), ("ScaleDownStabilized", _HIGHER)
        replicas, limit = _plainly_limited(bounds, current, stable)
    else:
        stable, able = _stabilized(behavior, bounds, history, current, desired, now)
        replicas, limit = _limited(behavior, bounds, history, current, stable, now)
    if stable == desired:
        able = ("ReadyForNewScale", "recommended size matches current size")
    return Outcome(replicas, able, replicas != stable, limit)


def _highest(history: History, desired: int, cutoff: float, now: float) -> int:
    recent = [each for each in history.recommendations if each.at >= cutoff]
    history.recommendations = [*recent, Event(desired, now)]
    return max(each.amount for each in history.recommendations)


def _plainly_limited(bounds: Bounds, current: int, desired: int) -> tuple[int, tuple[str, str]]:
    step = max(_FACTOR * current, _LEAST)
    most, why = (step, _TOO_FAST) if bounds.most > step else (bounds.most, _TOO_MANY)
    if desired < bounds.least:
        return bounds.least, _TOO_FEW
    if desired > most:
        return most, why
    return desired, _WITHIN


def _stabilized(
    behavior: Mapping[str, Any], bounds: Bounds, history: History, current: int, desired: int, now: float
) -> tuple[int, tuple[str, str]]:
    """Grow no further than every recent recommendation wanted, shrink no further than any of them."""
    window = behavior["scaleDown"].get("stabilizationWindowSeconds")
    # windows of the API are whole seconds, and upstream cuts the flag to that
    down = now - (int(bounds.downscale_window) if window is None else window)
    up = now - (behavior["scaleUp"].get("stabilizationWindowSeconds") or 0)
    lowest = min([desired, *(each.amount for each in history.recommendations if each.at > up)])
    highest = max([desired, *(each.amount for each in history.recommendations if each.at > down)])
    history.recommendations = [each for each in history.recommendations if each.at >= min(up, down)] + [Event(desired, now)]
    stable = min(max(current, lowest), highest)
    return stable, ("ScaleUpStabilized", _LOWER) if desired >= current else ("ScaleDownStabilized", _HIGHER)


def _limited(
    behavior: Mapping[str, Any], bounds: Bounds, history: History, current: int, desired: int, now: float
) -> tuple[int, tuple[str, str]]:
    if desired > current:
        # more came within a period than its policy allows: wait, do not go back
        step = max(_up_limit(behavior["scaleUp"], history, current, now), current)
        most, why = (step, _TOO_FAST) if bounds.most > step else (bounds.most, _TOO_MANY)
        return (most, why) if desired > most else (desired, _WITHIN)
    if desired < current:
        step = min(_down_limit(behavior["scaleDown"], history, current, now), current)
        least, why = (step, _TOO_FAST_DOWN) if bounds.least < step else (bounds.least, _TOO_FEW)
        return (least, why) if desired < least else (desired, _WITHIN)
    return desired, _WITHIN


def _up_limit(rules: Rules, history: History, current: int, now: float) -> int:
    """The greatest size that the policies allow."""
    choice = rules.get("selectPolicy") or "Max"
    if choice == "Disabled":
        return current
    allowed = []
    for policy in rules.get("policies") or ():
        start = _size_before(policy["periodSeconds"], history, current, now)
        # rounded up: a tenth of three would add nobody, ever
        grown = start + policy["value"] if policy["type"] == "Pods" else math.ceil(start * (1 + policy["value"] / 100))
        allowed.append(min(grown, MOST))
    return min(allowed, default=MOST) if choice == "Min" else max(allowed, default=-MOST)


def _down_limit(rules: Rules, history: History, current: int, now: float) -> int:
    """The least size that the policies allow."""
    choice = rules.get("selectPolicy") or "Max"
    if choice == "Disabled":
        return current
    allowed = []
    for policy in rules.get("policies") or ():
        start = _size_before(policy["periodSeconds"], history, current, now)
        allowed.append(start - policy["value"] if policy["type"] == "Pods" else int(start * (1 - policy["value"] / 100)))
    return max(allowed, default=-MOST) if choice == "Min" else min(allowed, default=MOST)


def _size_before(period: int, history: History, current: int, now: float) -> int:
    """How many replicas there were when the period began."""
    return current - _changed(history.up, now - period) + _changed(history.down, now - period)


def _changed(events: Sequence[Event], cutoff: float) -> int:
    return sum(each.amount for each in events if each.at > cutoff)

"""Dividing a number of seats among levels: as their targets say, within their bounds. Called by ``borrowing``. Pure.

The problem and its one solution are those of upstream's ``computeConcurrencyAllocation``: a fair proportion ``p`` such that
everybody gets ``p`` times their target, or the bound that forbids it, and nothing is left over.
"""

from collections.abc import Sequence
from dataclasses import dataclass

MIN_TARGET = 0.001  # seats; smaller targets count as this, so that nobody is divided by zero
_EPSILON = 1e-7


@dataclass(frozen=True, slots=True)
class Claim:
    """What one level wants, in seats: 0 <= lower <= target, lower <= upper."""

    lower: float
    upper: float
    target: float


def allocate(total: int, claims: Sequence[Claim]) -> tuple[list[float], float]:
    """Each claim's seats, and the fair proportion.

    Raises ValueError when the bounds do not leave room for the total, or make no sense.
    """
    for claim in claims:
        if not 0 <= claim.lower <= min(claim.target, claim.upper):
            raise ValueError(f"{claim}: needs 0 <= lower <= target and lower <= upper")
    least, most = sum(claim.lower for claim in claims), sum(claim.upper for claim in claims)
    if total < 0 or least - total > _EPSILON or total - most > _EPSILON:
        raise ValueError(f"{total} seats cannot be divided within bounds that sum to {least} and {most}")
    if not claims or total == 0:
        return [0.0] * len(claims), 0.0
    targets = [max(claim.target, MIN_TARGET) for claim in claims]
    fair = _proportion(total, claims, targets)
    return [min(max(fair * target, claim.lower), claim.upper) for claim, target in zip(claims, targets, strict=True)], fair


def _proportion(total: int, claims: Sequence[Claim], targets: Sequence[float]) -> float:
    """What is given away grows with the proportion, straight between the points where some bound begins or ceases to count."""
    turns: list[tuple[float, float]] = []  # a proportion, and by how much the slope changes there
    for claim, target in zip(claims, targets, strict=True):
        turns += [(claim.lower / target, target), (claim.upper / target, -target)]
    turns.sort()
    given = sum(claim.lower for claim in claims)
    proportion, slope = turns[0][0], 0.0
    for at, change in turns:
        step = (at - proportion) * slope
        if given + step >= total:
            break
        given += step
        proportion = at
        slope += change
    return proportion + ((total - given) / slope if slope > _EPSILON else 0.0)

"""Who may use how many seats for the next ten seconds: what one level does not need, another may have. Pure; see ``control``.

Follows ``updateBorrowingLocked`` of upstream's ``apf_controller.go``.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.apiserver.flowcontrol.allocation import Claim, allocate
from controlplane.apiserver.flowcontrol.configuration import Limits
from controlplane.apiserver.flowcontrol.demand import SeatDemand

PERIOD = 10.0  # seconds between adjustments


@dataclass(frozen=True, slots=True)
class State:
    """A level as it enters an adjustment."""

    exempt: bool
    limits: Limits
    demand: SeatDemand
    current: int


@dataclass(frozen=True, slots=True)
class Adjusted:
    """Seats by level name, what each level was meant to get, and the proportion of its target that everybody got."""

    current: dict[str, int]
    targets: dict[str, float]
    fair: float


def first_seats(limits: Limits) -> int:
    """What a level begins with, before anything is known of its demand."""
    return limits.nominal - (limits.nominal - limits.lower) // 2


def adjust(levels: Mapping[str, State]) -> Adjusted:
    """Exempt levels get what they used; the others share the rest by demand, each within its bounds."""
    total = sum(level.limits.nominal for level in levels.values())
    current: dict[str, int] = {}
    claims: dict[str, Claim] = {}
    left, lowest = total, 0
    for name, level in levels.items():
        limits, peak = level.limits, level.demand.peak
        if level.exempt:
            current[name] = max(limits.lower, peak)
            left -= current[name]
            continue
        lower = max(limits.lower, min(limits.nominal, peak))
        claims[name] = Claim(lower, limits.upper, max(lower, level.demand.smoothed))
        lowest += limits.lower
    wanted = int(sum(claim.lower for claim in claims.values()))
    targets = {name: claim.target for name, claim in claims.items()}
    if left <= lowest:
        current.update((name, levels[name].limits.lower) for name in claims)
        return Adjusted(current, targets, 0.0)
    if left <= wanted:
        part = (left - lowest) / (wanted - lowest)
        for name, claim in claims.items():
            least = levels[name].limits.lower
            current[name] = least + int((claim.lower - least) * part + 0.5)
        return Adjusted(current, targets, 0.0)
    try:
        seats, fair = allocate(left, list(claims.values()))
    except ValueError:  # bounds that leave seats over: everybody keeps what they have
        current.update((name, levels[name].current) for name in claims)
        return Adjusted(current, targets, 0.0)
    current.update((name, int(given + 0.5)) for name, given in zip(claims, seats, strict=True))
    return Adjusted(current, targets, fair)

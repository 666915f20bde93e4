"""Seats divided by demand within bounds, and what levels lend one another."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.apiserver.flowcontrol.allocation import MIN_TARGET, Claim, allocate
from controlplane.apiserver.flowcontrol.borrowing import State, adjust, first_seats
from controlplane.apiserver.flowcontrol.configuration import Limits
from controlplane.apiserver.flowcontrol.demand import Observed, SeatDemand, observe


@st.composite
def claims(draw: st.DrawFn) -> Claim:
    lower = draw(st.integers(0, 50))
    return Claim(lower, lower + draw(st.integers(0, 200)), lower + draw(st.floats(0, 200)))


@given(st.lists(claims(), min_size=1, max_size=8), st.integers(0, 1000))
def test_everything_is_given_away_in_proportion_or_at_a_bound(wanted: list[Claim], total: int) -> None:
    least, most = sum(claim.lower for claim in wanted), sum(claim.upper for claim in wanted)
    if not least <= total <= most:
        with pytest.raises(ValueError, match="cannot be divided"):
            allocate(total, wanted)
        return
    seats, fair = allocate(total, wanted)
    assert sum(seats) == pytest.approx(total, abs=1e-5)
    for claim, given_ in zip(wanted, seats, strict=True):
        share = fair * max(claim.target, MIN_TARGET)
        assert claim.lower <= given_ <= claim.upper
        at_lower = given_ == claim.lower and claim.lower >= share
        at_upper = given_ == claim.upper and claim.upper <= share
        assert at_lower or at_upper or math.isclose(given_, share)


def test_claims_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="lower <= target"):
        allocate(10, [Claim(5, 20, 2)])


@st.composite
def levels(draw: st.DrawFn) -> dict[str, State]:
    made: dict[str, State] = {}
    for index in range(draw(st.integers(1, 7))):
        exempt = index == 0
        nominal = draw(st.integers(0, 100))
        lower = nominal - draw(st.integers(0, nominal))
        limits = Limits(nominal, lower, nominal + draw(st.integers(0, 600)))
        demand = SeatDemand(peak=draw(st.integers(0, 300)), smoothed=draw(st.floats(0, 300)))
        made[f"level-{index}"] = State(exempt, limits, demand, first_seats(limits))
    return made


@given(levels())
def test_nobody_goes_below_what_he_keeps_and_all_together_get_no_more_than_there_is(held: dict[str, State]) -> None:
    adjusted = adjust(held)
    limited = [name for name, level in held.items() if not level.exempt]
    for name in limited:
        limits = held[name].limits
        assert limits.lower <= adjusted.current[name] <= limits.upper
    total = sum(level.limits.nominal for level in held.values())
    lowest = sum(held[name].limits.lower for name in limited)
    used = sum(adjusted.current[name] for name in held if held[name].exempt)
    given_ = sum(adjusted.current[name] for name in limited)
    assert given_ <= max(total - used, lowest) + len(limited)  # each may be rounded up


@given(levels())
def test_what_others_need_is_not_lent(held: dict[str, State]) -> None:
    """As long as exempt work leaves enough, everybody gets what it used at most, up to its own share."""
    adjusted = adjust(held)
    limited = {name: level for name, level in held.items() if not level.exempt}
    needed = {name: max(one.limits.lower, min(one.limits.nominal, one.demand.peak)) for name, one in limited.items()}
    left = sum(level.limits.nominal for level in held.values()) - sum(
        adjusted.current[name] for name, level in held.items() if level.exempt
    )
    if left > sum(needed.values()):
        assert all(adjusted.current[name] >= needed[name] for name in limited)


def test_idle_levels_lend_to_the_busy_one_and_take_back() -> None:
    def state(nominal: int, lendable: int, peak: int, smoothed: float) -> State:
        limits = Limits(nominal, nominal - lendable, nominal + 600)
        return State(False, limits, SeatDemand(peak=peak, smoothed=smoothed), nominal)

    busy = adjust({"mine": state(50, 25, 500, 500.0), "idle": state(250, 225, 0, 0.0)})
    assert busy.current["mine"] > 250
    assert busy.current["idle"] >= 25
    back = adjust({"mine": state(50, 25, 500, 500.0), "idle": state(250, 225, 240, 240.0)})
    assert back.current["idle"] >= 240
    assert sum(back.current.values()) == 300


def test_demand_rises_at_once_and_falls_slowly() -> None:
    seen = observe({0: 5.0, 10: 5.0}, 12)
    assert seen == Observed(5.0, 5.0, 12, 10.0)
    demand = SeatDemand()
    demand.update(seen)
    assert (demand.smoothed, demand.peak) == (10.0, 12)
    periods = 0
    while demand.smoothed > 5:
        demand.update(observe({0: 10.0}, 0))
        periods += 1
    assert 28 <= periods <= 32  # five minutes of ten-second periods

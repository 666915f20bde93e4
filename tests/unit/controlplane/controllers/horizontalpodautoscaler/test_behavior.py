"""Bounds, policies and windows: upstream's published cases, and what holds for every history."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.controllers.horizontalpodautoscaler.behavior import Bounds, Event, History, normalized

NOW = 10_000.0
Rules = dict[str, Any]


def pods(value: int, period: int = 60) -> Rules:
    return {"type": "Pods", "value": value, "periodSeconds": period}


def percent(value: int, period: int = 60) -> Rules:
    return {"type": "Percent", "value": value, "periodSeconds": period}


def rules(*policies: Rules, choice: str = "Max", window: int | None = 0) -> Rules:
    return {"policies": list(policies), "selectPolicy": choice, "stabilizationWindowSeconds": window}


def behavior(up: Rules | None = None, down: Rules | None = None) -> Rules:
    return {"scaleUp": up or rules(percent(100_000)), "scaleDown": down or rules(percent(100))}


def run(
    of: Rules | None, current: int, desired: int, *, least: int = 1, most: int = 1000, history: History | None = None
) -> tuple[int, str, str]:
    found = normalized(of, Bounds(least, most, 300), history or History(), current, desired, NOW)
    assert found.limited == (found.limit[0] != "DesiredWithinRange")
    return found.replicas, found.able[0], found.limit[0]


@pytest.mark.parametrize(
    ("current", "desired", "wanted", "limit"),
    [
        pytest.param(5, 7, 7, "DesiredWithinRange", id="in-range"),
        pytest.param(3, 1, 2, "TooFewReplicas", id="below"),
        pytest.param(1, 0, 2, "TooFewReplicas", id="nothing-wanted"),
        pytest.param(20, 1000, 10, "TooManyReplicas", id="above"),
        pytest.param(3, 1000, 6, "ScaleUpLimit", id="doubling-is-enough"),
        pytest.param(1, 1000, 4, "ScaleUpLimit", id="up-to-four-at-once"),
    ],
)
def test_without_a_behavior(current: int, desired: int, wanted: int, limit: str) -> None:
    assert run(None, current, desired, least=2, most=10)[::2] == (wanted, limit)


@pytest.mark.parametrize(
    ("of", "current", "desired", "wanted", "limit"),
    [
        pytest.param(behavior(up=rules(pods(2))), 3, 100, 5, "ScaleUpLimit", id="pods-up"),
        pytest.param(behavior(up=rules(percent(50))), 3, 100, 5, "ScaleUpLimit", id="percent-up-rounds-up"),
        pytest.param(behavior(up=rules(percent(10))), 3, 100, 4, "ScaleUpLimit", id="a-tenth-of-three-is-one"),
        pytest.param(behavior(up=rules(pods(2), percent(200))), 3, 100, 9, "ScaleUpLimit", id="most-of-two"),
        pytest.param(behavior(up=rules(pods(2), percent(200), choice="Min")), 3, 100, 5, "ScaleUpLimit", id="least-of-two"),
        pytest.param(behavior(up=rules(pods(2), choice="Disabled")), 3, 100, 3, "ScaleUpLimit", id="no-way-up"),
        pytest.param(behavior(up=rules(pods(2))), 3, 4, 4, "DesiredWithinRange", id="slower-than-allowed"),
        pytest.param(behavior(up=rules(pods(2))), 999, 2000, 1000, "TooManyReplicas", id="the-greatest-size"),
        pytest.param(behavior(down=rules(pods(2))), 10, 1, 8, "ScaleDownLimit", id="pods-down"),
        pytest.param(behavior(down=rules(percent(50))), 7, 1, 3, "ScaleDownLimit", id="percent-down-rounds-down"),
        pytest.param(behavior(down=rules(pods(2), percent(50))), 10, 1, 5, "ScaleDownLimit", id="most-of-two-down"),
        pytest.param(behavior(down=rules(pods(2), percent(50), choice="Min")), 10, 1, 8, "ScaleDownLimit", id="least-down"),
        pytest.param(behavior(down=rules(pods(2), choice="Disabled")), 10, 1, 10, "ScaleDownLimit", id="no-way-down"),
        pytest.param(behavior(down=rules(percent(100))), 10, 0, 1, "TooFewReplicas", id="the-least-size"),
        pytest.param(behavior(), 5, 5, 5, "DesiredWithinRange", id="as-it-is"),
    ],
)
def test_policies(of: Rules, current: int, desired: int, wanted: int, limit: str) -> None:
    assert run(of, current, desired)[::2] == (wanted, limit)


def test_a_period_counts_what_came_and_went_in_it() -> None:
    up = History(up=[Event(4, NOW - 120), Event(2, NOW - 30)])
    assert run(behavior(up=rules(pods(3))), 10, 100, history=up)[0] == 11
    assert run(behavior(up=rules(pods(3, 150))), 10, 100, history=up)[0] == 10  # six came: more than allowed, but none goes back
    came_back = History(up=[Event(2, NOW - 30)], down=[Event(3, NOW - 10)])
    assert run(behavior(up=rules(pods(3))), 10, 100, history=came_back)[0] == 14
    down = History(down=[Event(5, NOW - 59)])
    assert run(behavior(down=rules(percent(50))), 10, 1, history=down)[0] == 7
    assert run(behavior(down=rules(percent(20))), 10, 1, history=down)[0] == 10


@pytest.mark.parametrize(
    ("of", "before", "current", "desired", "wanted", "able"),
    [
        pytest.param(None, {299: 8}, 8, 4, 8, "ScaleDownStabilized", id="the-flag-s-window"),
        pytest.param(None, {301: 8}, 8, 4, 4, "ReadyForNewScale", id="out-of-the-flag-s-window"),
        pytest.param(None, {10: 8}, 4, 6, 8, "ScaleDownStabilized", id="upstream-s-word-when-growing-too"),
        pytest.param(behavior(down=rules(percent(100), window=None)), {299: 8}, 8, 4, 8, "ScaleDownStabilized", id="as-the-flag"),
        pytest.param(behavior(down=rules(percent(100), window=60)), {59: 7, 61: 9}, 8, 4, 7, "ScaleDownStabilized", id="own"),
        pytest.param(behavior(down=rules(percent(100), window=0)), {1: 8}, 8, 4, 4, "ReadyForNewScale", id="none-down"),
        pytest.param(behavior(up=rules(percent(900), window=60)), {59: 5, 61: 2}, 4, 9, 5, "ScaleUpStabilized", id="up"),
        pytest.param(behavior(up=rules(percent(900), window=60)), {30: 3}, 4, 9, 4, "ScaleUpStabilized", id="not-turned-round"),
    ],
)
def test_stabilization(of: Rules | None, before: dict[int, int], current: int, desired: int, wanted: int, able: str) -> None:
    history = History([Event(size, NOW - age) for age, size in before.items()])
    assert run(of, current, desired, history=history)[:2] == (wanted, able)


def test_a_restart_shrinks_nothing_at_once() -> None:
    history = History()
    history.begin(10, NOW)
    assert run(None, 10, 1, history=history)[0] == 10
    history.begin(3, NOW)  # only the first look begins
    assert [each.amount for each in history.recommendations] == [10, 1]


def test_changes_are_noted_for_as_long_as_a_policy_looks_back() -> None:
    history, of = History(), behavior(up=rules(pods(1, 60), pods(9, 600)))
    history.note_change(None, 1, 5, NOW)
    assert history.up == []
    for when in (0, 590, 700):
        history.note_change(of, 3, 5, NOW + when)
    history.note_change(of, 5, 4, NOW + 700)
    assert [each.at - NOW for each in history.up] == [590, 700]
    assert history.down == [Event(1, NOW + 700)]


POLICY = st.builds(
    lambda kind, value, period: {"type": kind, "value": value, "periodSeconds": period},
    st.sampled_from(["Pods", "Percent"]),
    st.integers(1, 300),
    st.integers(1, 1800),
)
RULES = st.builds(
    lambda policies, choice, window: rules(*policies, choice=choice, window=window),
    st.lists(POLICY, min_size=1, max_size=3),
    st.sampled_from(["Max", "Min", "Disabled"]),
    st.one_of(st.none(), st.integers(0, 3600)),
)
BEHAVIOR = st.one_of(st.none(), st.builds(lambda up, down: {"scaleUp": up, "scaleDown": down}, RULES, RULES))
EVENTS = st.lists(st.builds(Event, st.integers(0, 200), st.floats(NOW - 4000, NOW)), max_size=6)
HISTORY = st.builds(History, EVENTS, EVENTS, EVENTS)


@given(of=BEHAVIOR, history=HISTORY, desired=st.integers(0, 500), data=st.data())
def test_the_bounds_hold_whatever_happened(of: Rules | None, history: History, desired: int, data: st.DataObject) -> None:
    least = data.draw(st.integers(0, 50))
    most = data.draw(st.integers(max(least, 1), 200))
    current = data.draw(st.integers(least, most))
    found = normalized(of, Bounds(least, most, 300), history, current, desired, NOW)
    assert least <= found.replicas <= most
    assert found.limited == (found.limit[0] != "DesiredWithinRange")
    assert history.recommendations[-1] == Event(desired, NOW)
    if of is not None:
        choices = {direction: of[direction]["selectPolicy"] for direction in of}
        assert found.replicas <= current or choices["scaleUp"] != "Disabled"
        assert found.replicas >= current or choices["scaleDown"] != "Disabled"


@given(of=BEHAVIOR, events=EVENTS, current=st.integers(1, 100), wishes=st.tuples(st.integers(0, 300), st.integers(0, 300)))
def test_a_greater_wish_never_gives_less(of: Rules | None, events: list[Event], current: int, wishes: tuple[int, int]) -> None:
    less, more = (
        normalized(of, Bounds(1, 200, 300), History(list(events)), current, wish, NOW).replicas for wish in sorted(wishes)
    )
    assert less <= more


@given(wishes=st.lists(st.integers(0, 50), min_size=1, max_size=30))
def test_nothing_shrinks_below_a_recent_wish(wishes: list[int]) -> None:
    history, size = History(), 10
    history.begin(size, 0.0)
    for turn, wish in enumerate(wishes):
        now = turn * 15.0
        before, size = size, normalized(None, Bounds(1, 100, 300), history, size, wish, now).replicas
        recent = [10] * (now <= 300) + [each for then, each in enumerate(wishes[: turn + 1]) if now - then * 15.0 <= 300]
        assert size >= min(max(recent), max(before * 2, 4))
        assert size <= max(max(recent), 1)
        assert len(history.recommendations) <= 22

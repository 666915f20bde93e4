"""The checker accepts a good history and names what is wrong with each broken one."""

from collections.abc import Callable
from copy import deepcopy

import pytest

from tests.robustness.checker import check
from tests.robustness.history import OK, REFUSED, History, Read, Seen, State, Watched, Write

KEY = "default/alpha"
FIRST = State("u1", "w-1", "red")
SECOND = State("u1", "w-2", "blue")
AGAIN = State("u2", "w-3", "red")


def good() -> History:
    """Created at 11, updated at 12, deleted at 13, created again at 14; watched and listed."""
    events = [
        Seen("ADDED", KEY, 11, FIRST),
        Seen("MODIFIED", KEY, 12, SECOND),
        Seen("DELETED", KEY, 13, SECOND),
        Seen("ADDED", KEY, 14, AGAIN),
    ]
    red = [events[0], Seen("DELETED", KEY, 12, FIRST), events[3]]
    return History(
        writes=[
            Write("create", KEY, 1.0, "w-1", ended=2.0, outcome=OK, code=201, revision=11, state=FIRST),
            Write("update", KEY, 3.0, "w-2", 11, ended=4.0, outcome=OK, code=200, revision=12, state=SECOND),
            Write("update", KEY, 4.5, "w-4", 11, ended=4.6, outcome=REFUSED, code=409),
            Write("delete", KEY, 5.0, uid="u1", ended=6.0, outcome=OK, code=200),
            Write("create", KEY, 7.0, "w-3", ended=8.0, outcome=OK, code=201, revision=14, state=AGAIN),
            Write("create", "default/beta", 9.0, "w-5"),
        ],
        reads=[
            Read(4.2, 4.4, 12, {KEY: (12, SECOND)}),
            Read(6.2, 6.4, 13, {}),
            Read(8.2, 8.4, 14, {KEY: (14, AGAIN)}),
        ],
        watches=[
            Watched("all", 10, events=events, reached=14),
            Watched("red", 10, "red", events=red, reached=14),
            Watched("late", 12, initial={KEY: (12, SECOND)}, reached=12),
        ],
    )


def test_a_good_history_is_accepted() -> None:
    assert check(good()) == []


def lost_write(history: History) -> None:
    history.watches.clear()
    history.reads[-1] = Read(8.2, 8.4, 14, {})


def stale_list(history: History) -> None:
    history.reads.append(Read(9.0, 9.1, 12, {KEY: (12, SECOND)}))


def back_from_the_dead(history: History) -> None:
    history.reads.append(Read(6.5, 6.6, 13, {KEY: (12, SECOND)}))


def old_uid_again(history: History) -> None:
    undead = State("u1", "w-3", "red")
    history.writes[4].state = undead
    history.reads[-1] = Read(8.2, 8.4, 14, {KEY: (14, undead)})
    for watched in history.watches[:2]:
        watched.events[-1] = Seen("ADDED", KEY, 14, undead)


def dropped_event(history: History) -> None:
    del history.watches[0].events[1]


def dropped_for_a_selector(history: History) -> None:
    del history.watches[1].events[1]


def swapped_events(history: History) -> None:
    events = history.watches[0].events
    events[1], events[2] = events[2], events[1]


def told_twice(history: History) -> None:
    history.watches[0].events.insert(1, history.watches[0].events[0])


def invented_value(history: History) -> None:
    del history.writes[0]


def refused_and_done(history: History) -> None:
    history.writes[1].outcome, history.writes[1].code = REFUSED, 500


def wrong_conflict(history: History) -> None:
    history.writes[2].expected = 12
    history.reads.append(Read(4.7, 4.8, 12, {KEY: (12, SECOND)}))  # nothing had happened by then


def wrong_not_found(history: History) -> None:
    history.writes.append(Write("delete", KEY, 4.1, uid="u1", ended=4.15, outcome=REFUSED, code=404))


def lost_update(history: History) -> None:
    history.writes[1].expected = 9


def wrong_start(history: History) -> None:
    history.watches[2].initial = {}


def out_of_order(history: History) -> None:
    history.writes[4].started = 0.5
    history.writes[0].started, history.writes[0].ended = 8.5, 8.6


def two_truths(history: History) -> None:
    history.watches[0].events[1] = Seen("MODIFIED", KEY, 12, State("u1", "w-2", "red"))


def expired(history: History) -> None:
    history.watches[0].troubles.append("ended at 12 with 410")


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lost_write, "a list at 14 shows default/alpha as None"),
        (stale_list, "is stale: 14 had been given out"),
        (back_from_the_dead, "shows default/alpha as (12,"),
        (old_uid_again, "with the uid of"),
        (dropped_event, "missed Seen(type='MODIFIED'"),
        (dropped_for_a_selector, "missed Seen(type='DELETED'"),
        (swapped_events, "out of order"),
        (told_twice, "told twice"),
        (invented_value, "which nobody wrote there"),
        (refused_and_done, "was refused with 500"),
        (wrong_conflict, "never between 12 and 12 was that right"),
        (wrong_not_found, "was refused with 404"),
        (lost_update, "was made from 9 and replaced 11"),
        (wrong_start, "which began at 12, shows"),
        (out_of_order, "though 14 had been given out before it began"),
        (two_truths, "another client as"),
        (expired, "ended at 12 with 410"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_broken_promise_is_named(spoil: Callable[[History], None], sentence: str) -> None:
    history = deepcopy(good())
    spoil(history)
    assert any(sentence in line for line in check(history)), check(history)

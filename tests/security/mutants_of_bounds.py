"""As ``mutants``: servers that let one client take what is meant for all, each without one of the bounds."""

import asyncio
from dataclasses import replace
from typing import Any

from controlplane.apiserver import chain
from controlplane.apiserver import server as connections
from controlplane.apiserver.filters import deadline, in_flight, priority_and_fairness
from controlplane.apiserver.flowcontrol import queueset, width
from controlplane.apiserver.pace import Pace
from tests.security.mutants import Mutant, Patch

_APISERVER = "tests/integration/apiserver"
_FLOW = "tests/unit/controlplane/apiserver/flowcontrol"
_ENDLESS = 1 << 40
_MUCH = "one client asks too much"
_SLOW = "slow or endless heads and bodies"


def _seats_for_all(patch: Patch) -> None:
    patch.setattr(queueset.QueueSet, "_fits", lambda self, seats: True)


def _queues_without_end(patch: Patch) -> None:
    kept = queueset.QueueSet.start

    def start(self: queueset.QueueSet, *given: Any) -> Any:
        self.shape = replace(self.shape, length=_ENDLESS)
        return kept(self, *given)

    patch.setattr(queueset.QueueSet, "start", start)


def _waiting_without_end(patch: Patch) -> None:
    """Longer than the request has."""
    patch.setattr(priority_and_fairness, "_WAIT_SHARE", 0.3)


def _seats_of_watches_are_kept(patch: Patch) -> None:
    kept = priority_and_fairness._Seat.begin

    def begin(self: Any, now: float) -> None:
        kept(self, now)
        self.call.on_caught_up = None

    patch.setattr(priority_and_fairness._Seat, "begin", begin)


def _all_lists_are_narrow(patch: Patch) -> None:
    patch.setattr(width, "BYTES_PER_SEAT", _ENDLESS)


def _all_writes_are_narrow(patch: Patch) -> None:
    patch.setattr(width, "WATCHES_PER_SEAT", _ENDLESS)


def _one_may_take_a_whole_level(patch: Patch) -> None:
    patch.setattr(width, "_LEVEL_SHARE", 10.0)


def _nobody_goes_first(patch: Patch) -> None:
    """Queues have their turn by number, whatever their flows have had already."""
    patch.setattr(queueset.QueueSet, "_order", lambda self, queue: (queue.index, 0))


def _heads_without_end(patch: Patch) -> None:
    patch.setattr(connections, "MAX_HEAD", _ENDLESS)


def _heads_that_never_come(patch: Patch) -> None:
    """Nobody looks at the clock before a head is whole."""

    def made(self: connections.Connection, transport: asyncio.BaseTransport) -> None:
        super(connections.Connection, self).connection_made(transport)

    patch.setattr(connections.Connection, "connection_made", made)


def _readers_have_all_the_time(patch: Patch) -> None:
    async def prepare(self: chain.Held, request: Any) -> None:
        await self._answer.prepare(request)
        self._over()

    patch.setattr(chain.Held, "prepare", prepare)


def _refused_at_any_pace(patch: Patch) -> None:
    patch.setattr(Pace, "delay", lambda self, now: 0.0)


def _no_word_on_time(patch: Patch) -> None:
    patch.setattr(deadline, "duration", lambda text: 0.0)


def _no_bound_in_flight(patch: Patch) -> None:
    patch.setattr(in_flight, "is_long_running", lambda call: True)


MUTANTS = (
    Mutant(
        _MUCH, f"{_APISERVER}/test_flow_control.py::test_a_level_that_does_not_queue_refuses_what_is_too_much", _seats_for_all
    ),
    Mutant(_MUCH, f"{_APISERVER}/test_flow_control.py::test_a_queue_holds_what_is_too_much_for_a_while", _queues_without_end),
    Mutant(
        _MUCH,
        f"{_APISERVER}/test_flow_control.py::test_who_waits_longer_than_a_quarter_of_his_time_is_turned_away",
        _waiting_without_end,
    ),
    Mutant(
        _MUCH,
        f"{_APISERVER}/test_flow_control.py::test_a_watch_has_a_seat_only_until_it_has_begun",
        _seats_of_watches_are_kept,
    ),
    Mutant(_MUCH, f"{_FLOW}/test_width.py::test_lists_and_watches", _all_lists_are_narrow),
    Mutant(_MUCH, f"{_FLOW}/test_width.py::test_writes", _all_writes_are_narrow),
    Mutant(_MUCH, f"{_FLOW}/test_width.py", _one_may_take_a_whole_level),
    Mutant(_MUCH, f"{_FLOW}/test_queueset.py", _nobody_goes_first),
    Mutant(_MUCH, f"{_APISERVER}/test_connections.py::test_too_many_writes_at_once_are_asked_to_come_back", _no_bound_in_flight),
    Mutant(_SLOW, f"{_APISERVER}/test_connections.py::test_a_head_has_an_end", _heads_without_end),
    Mutant(
        _SLOW, f"{_APISERVER}/test_connections.py::test_a_head_that_does_not_come_ends_the_connection[]", _heads_that_never_come
    ),
    Mutant(
        _SLOW,
        f"{_APISERVER}/test_connections.py::test_who_reads_too_slowly_loses_the_answer_and_the_seat",
        _readers_have_all_the_time,
    ),
    Mutant(
        _SLOW,
        f"{_APISERVER}/test_flow_control.py::test_a_timeout_that_is_none_is_refused_before_anything_else[soon-time: invalid"
        ' duration "soon"]',
        _no_word_on_time,
    ),
    Mutant(
        "storms of bad credentials",
        "tests/security/test_misbehave.py::test_who_is_refused_and_asks_again_at_once_waits_for_the_next_refusal",
        _refused_at_any_pace,
    ),
)

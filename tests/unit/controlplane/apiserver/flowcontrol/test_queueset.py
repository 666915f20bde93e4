"""Fair queuing on virtual time: clients that send as they please, and what each of them gets."""

import heapq
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.apiserver.flowcontrol.queueset import (
    BURST,
    CANCELLED,
    EXEMPT,
    FULL_QUEUE,
    FULL_SEATS,
    ONE_SEAT,
    REJECT,
    TIMED_OUT,
    QueueSet,
    Request,
    Shape,
    Work,
)


def ignore() -> None:
    """Nobody waits for being woken here: tests look at ``running``."""


@dataclass
class World:
    """A queue set, a clock, and requests that run for as long as they were told."""

    queues: QueueSet
    now: float = 0.0
    done: Counter[str] = field(default_factory=Counter)  # seat-seconds by client
    refused: Counter[str] = field(default_factory=Counter)
    waits: dict[str, list[float]] = field(default_factory=dict)
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _number: int = 0

    def at(self, when: float, act: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (when, self._number, act))

    def send(self, client: str, work: Work, hand: Sequence[int], seconds: float, after: Callable[[], None] = ignore) -> None:
        arrived = self.now
        request = self.queues.start(work, hand, self.now)
        if isinstance(request, str):
            self.refused[client] += 1
            return

        def end() -> None:
            linger = self.queues.finish(request, self.now)
            if linger:
                self.at(self.now + linger, lambda: self.queues.release(request, self.now))
            self.done[client] += round(seconds * work.initial * 1_000_000)
            after()

        def begin() -> None:
            self.waits.setdefault(client, []).append(self.now - arrived)
            self.at(self.now + seconds, end)

        if request.running:
            begin()
        else:
            request.wake = begin

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, act = heapq.heappop(self._events)
            act()
            check(self.queues)
        self.now = until

    def greedy(self, client: str, streams: int, work: Work, hand: Sequence[int], seconds: float) -> None:
        """Sends its next request as soon as one is answered, ``streams`` at a time."""

        def again() -> None:
            self.send(client, work, hand, seconds, again)

        for _ in range(streams):
            self.at(0.0, again)


def check(queues: QueueSet) -> None:
    """What must always hold."""
    held = queues.queues()
    assert queues.waiting == sum(len(queue.waiting) for queue in held)
    assert queues.seats == sum(queue.seats for queue in held) + sum(one.work.seats for one in queues.queueless)
    assert queues.executing == sum(queue.executing for queue in held) + len(queues.queueless)
    active = [queue for queue in held if queue.waiting or queue.executing]
    assert queues._active == len(active)
    assert set(queues._occupied) == {queue for queue in held if queue.waiting}
    for queue in held:
        assert queue.waiting_work == pytest.approx(sum(request.work.total for request in queue.waiting))
    if queues.waiting and queues.seats < queues.limit:  # work conservation: only for want of room does anybody wait
        first = min(queues._occupied, key=queues._order)
        assert next(iter(first.waiting)).work.seats + queues.seats > queues.limit


def test_the_greedy_wait_behind_the_modest() -> None:
    world = World(QueueSet(Shape(8, 1, 1000), 10, 0.0))
    world.greedy("greedy", 500, ONE_SEAT, (0,), 0.1)
    world.greedy("modest", 2, ONE_SEAT, (1,), 0.1)
    world.run(30)
    assert max(world.waits["modest"]) <= 0.11  # at most until somebody's request ends
    assert world.done["modest"] == pytest.approx(2 * 30 * 1_000_000, rel=0.5)
    assert world.done["greedy"] + world.done["modest"] == pytest.approx(10 * 30 * 1_000_000, rel=0.02)  # no seat stays empty


def test_all_that_ask_for_more_than_their_share_get_the_same() -> None:
    world = World(QueueSet(Shape(16, 1, 1000), 12, 0.0))
    world.greedy("many-short", 60, ONE_SEAT, (0,), 0.01)
    world.greedy("few-long", 20, ONE_SEAT, (1,), 0.5)
    world.greedy("wide", 20, Work(4), (2,), 0.05)
    world.run(60)
    shares = [world.done[client] / sum(world.done.values()) for client in ("many-short", "few-long", "wide")]
    assert shares == pytest.approx([1 / 3] * 3, abs=0.05)


def test_a_flow_that_comes_late_is_not_repaid_for_the_time_before() -> None:
    world = World(QueueSet(Shape(4, 1, 1000), 4, 0.0))
    world.greedy("early", 20, ONE_SEAT, (0,), 0.1)
    world.run(100)
    before = world.done["early"]

    def late() -> None:
        world.send("late", ONE_SEAT, (1,), 0.1, late)

    for _ in range(20):
        late()
    world.run(110)
    assert world.done["late"] == pytest.approx(world.done["early"] - before, rel=0.1)


def test_a_wide_request_gets_its_seats_though_narrow_ones_keep_coming() -> None:
    world = World(QueueSet(Shape(4, 1, 1000), 10, 0.0))
    world.greedy("narrow", 50, ONE_SEAT, (0,), 0.1)
    world.greedy("wide", 1, Work(10), (1,), 0.1)
    world.run(20)
    assert len(world.waits["wide"]) > 20
    assert max(world.waits["wide"]) < 2


def test_a_request_wider_than_the_level_runs_alone() -> None:
    queues = QueueSet(Shape(4, 1, 10), 3, 0.0)
    first, wide = queues.start(ONE_SEAT, (0,), 0.0), queues.start(Work(7), (1,), 0.0)
    assert isinstance(first, Request)
    assert isinstance(wide, Request)
    assert (first.running, wide.running) == (True, False)
    queues.finish(first, 1.0)
    assert wide.running
    after = queues.start(ONE_SEAT, (0,), 1.0)
    assert isinstance(after, Request)
    assert not after.running
    queues.finish(wide, 2.0)
    assert after.running
    check(queues)


def test_a_full_queue_refuses_and_a_level_without_queues_too() -> None:
    queued = QueueSet(Shape(2, 1, 2), 1, 0.0)
    assert [isinstance(queued.start(ONE_SEAT, (0,), 0.0), Request) for _ in range(3)] == [True] * 3
    assert queued.start(ONE_SEAT, (0,), 0.0) == FULL_QUEUE
    assert isinstance(queued.start(ONE_SEAT, (1,), 0.0), Request)  # others have a queue of their own
    plain = QueueSet(Shape(REJECT), 2, 0.0)
    assert [isinstance(plain.start(ONE_SEAT, (0,), 0.0), Request) for _ in range(2)] == [True] * 2
    assert plain.start(ONE_SEAT, (0,), 0.0) == FULL_SEATS
    exempt = QueueSet(Shape(EXEMPT), 0, 0.0)
    assert all(isinstance(exempt.start(Work(10), (0,), 0.0), Request) for _ in range(100))


def test_a_hand_spreads_over_its_queues_and_prefers_the_emptiest() -> None:
    queues = QueueSet(Shape(8, 3, 50), 1, 0.0)
    queues.start(ONE_SEAT, (0, 3, 5), 0.0)
    for _ in range(30):
        queues.start(ONE_SEAT, (0, 3, 5), 0.0)
    assert [len(queue.waiting) for queue in queues.queues()] == [10, 0, 0, 10, 0, 10, 0, 0]


def test_who_gives_up_leaves_its_place_and_who_runs_cannot() -> None:
    queues = QueueSet(Shape(2, 1, 5), 1, 0.0)
    running, waiting, last = (queues.start(ONE_SEAT, (0,), 0.0) for _ in range(3))
    assert isinstance(running, Request)
    assert isinstance(waiting, Request)
    assert isinstance(last, Request)
    assert not queues.abandon(running, 1.0)
    assert queues.abandon(waiting, 1.0, TIMED_OUT)
    assert not queues.abandon(waiting, 1.0, CANCELLED)
    assert (queues.counts.rejected, queues.counts.timed_out, queues.counts.cancelled) == (1, 1, 0)
    queues.finish(running, 2.0)
    assert last.running
    queues.finish(last, 3.0)
    assert queues.idle
    check(queues)


def test_seats_stay_taken_while_watchers_are_told() -> None:
    queues = QueueSet(Shape(2, 1, 5), 4, 0.0)
    write = queues.start(Work(1, 4, 0.2), (0,), 0.0)
    assert isinstance(write, Request)
    assert queues.finish(write, 1.0) == pytest.approx(0.2)
    behind = queues.start(ONE_SEAT, (1,), 1.1)
    assert isinstance(behind, Request)
    assert not behind.running
    queues.release(write, 1.2)
    assert behind.running
    narrow = QueueSet(Shape(2, 1, 5), 2, 0.0)
    reshaped = narrow.start(Work(1, 10, 0.1), (0,), 0.0)
    assert isinstance(reshaped, Request)
    assert narrow.finish(reshaped, 0.0) == pytest.approx(0.5)  # the same work in two seats


def test_a_crowd_is_let_in_a_few_at_each_turn() -> None:
    held: list[float] = []
    queues = QueueSet(Shape(2, 1, 5), 100, 0.0)
    queues.on_held = lambda: held.append(1.0)
    crowd = [queues.start(ONE_SEAT, (0,), 0.0) for _ in range(50)]  # more than the queue is long: there are seats
    assert all(isinstance(request, Request) for request in crowd)
    running = [sum(request.running for request in crowd if isinstance(request, Request))]
    for turn in range(1, 4):
        queues.turn(0.001 * turn)
        running.append(sum(request.running for request in crowd if isinstance(request, Request)))
    assert running == [BURST, 2 * BURST, 3 * BURST, 50]
    assert len(held) == 3
    other = queues.start(ONE_SEAT, (1,), 1.0)  # a calm while later nobody is held
    assert isinstance(other, Request)
    assert other.running


def test_new_limits_count_at_once_and_unwanted_queues_empty_themselves() -> None:
    queues = QueueSet(Shape(8, 1, 50), 1, 0.0)
    requests = [queues.start(ONE_SEAT, (index,), 0.0) for index in range(8)]
    queues.configure(Shape(4, 1, 50), 3, 1.0)
    assert sum(request.running for request in requests if isinstance(request, Request)) == 3
    for step in range(8):
        running = next(request for request in requests if isinstance(request, Request) and request.running)
        requests.remove(running)
        queues.finish(running, 2.0 + step)
        check(queues)
    assert len(queues.queues()) == 4
    queues.configure(Shape(16, 1, 50), 3, 20.0)
    assert len(queues.queues()) == 16


def test_the_times_of_all_states_are_kept() -> None:
    queues = QueueSet(Shape(2, 1, 5), 1, 0.0)
    first = queues.start(ONE_SEAT, (0,), 1.0)
    second = queues.start(Work(3), (0,), 1.5)
    assert isinstance(first, Request)
    assert isinstance(second, Request)
    queues.finish(first, 2.0)
    queues.finish(second, 4.0)
    assert queues.take_times(5.0) == {(0, 0, 0, 0): 2.0, (1, 1, 0, 0): 0.5, (1, 1, 1, 3): 0.5, (1, 3, 0, 0): 2.0}
    assert (queues.take_peak(), queues.take_peak()) == (4, 0)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 12), st.sampled_from([Shape(1, 1, 3), Shape(4, 2, 3), Shape(16, 4, 50)]))
def test_nobody_starves_and_nothing_is_lost_whatever_comes(seed: int, limit: int, shape: Shape) -> None:
    """Random arrivals, widths, durations, lingering, changes of limits: invariants at each step, and all end up done."""
    chance = random.Random(seed)
    world = World(QueueSet(shape, limit, 0.0))
    sent = 0
    for _ in range(150):
        sent += 1
        work = Work(chance.choice((1, 1, 1, 2, 9)), chance.choice((0, 0, 3)), chance.choice((0.0, 0.05)))
        hand = tuple(chance.sample(range(shape.queues), shape.hand))
        client, seconds = f"c{hand[0]}", chance.choice((0.0, 0.01, 0.3))
        when = chance.uniform(0, 10)
        world.at(when, lambda client=client, work=work, hand=hand, seconds=seconds: world.send(client, work, hand, seconds))  # type: ignore[misc]
    for _ in range(4):
        world.at(chance.uniform(0, 10), lambda: world.queues.configure(shape, chance.randint(1, 12), world.now))
    world.run(10_000)
    assert world.queues.idle
    assert world.queues.seats == 0
    assert sum(map(len, world.waits.values())) + sum(world.refused.values()) == sent

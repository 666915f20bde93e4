"""Watches are served in turn, nobody keeps the loop from the others, and a crowd is written to at a pace."""

import asyncio

import pytest

from controlplane.apiserver.endpoints.fanout import AT_ONCE, CROWD, PACES, PART, Fanout


class Recorder:
    """Says its number, and how much it had to send, each time it is served."""

    def __init__(self, said: list[tuple[int, int]], number: int, fanout: Fanout) -> None:
        self._said, self._number, self._fanout, self._events = said, number, fanout, 0
        self.served = 0.0

    def event(self) -> None:
        self._events += 1
        if self._events == 1:
            self._fanout.add(self)

    def send(self) -> None:
        events, self._events = self._events, 0
        self._said.append((self._number, events))


async def test_all_are_served_in_the_order_in_which_they_became_ready() -> None:
    fanout, said = Fanout(), list[tuple[int, int]]()
    for number in range(3 * AT_ONCE + 1):
        Recorder(said, number, fanout).event()
    assert said == []
    for turn in range(1, 4):
        await asyncio.sleep(0)
        assert said == [(number, 1) for number in range(turn * AT_ONCE)]
    Recorder(said, -1, fanout).event()
    await asyncio.sleep(0)
    assert said[3 * AT_ONCE :] == [(3 * AT_ONCE, 1), (-1, 1)]


async def test_a_sender_that_becomes_ready_while_it_is_served_comes_again() -> None:
    fanout, said = Fanout(), list[tuple[int, int]]()

    class Again(Recorder):
        def send(self) -> None:
            super().send()
            if len(said) < 5:
                self.event()

    Again(said, 1, fanout).event()
    for _ in range(6):
        await asyncio.sleep(0)
    assert said == [(1, 1)] * 5


@pytest.mark.looptime
async def test_few_are_served_at_once_every_time() -> None:
    fanout, said = Fanout(), list[tuple[int, int]]()
    few = [Recorder(said, number, fanout) for number in range(CROWD - 1)]
    for _ in range(5):
        said.clear()
        for sender in few:
            sender.event()
        await asyncio.sleep(0)
        assert said == [(number, 1) for number in range(CROWD - 1)]


class Processor:
    """Time of the processor: every look at it takes the same."""

    def __init__(self, step: float) -> None:
        self._step, self._now = step, 0.0

    def __call__(self) -> float:
        self._now += self._step
        return self._now


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("each", "pace"),
    [(PACES[0] * PART / 2, PACES[0]), (PACES[0] * PART * 5, PACES[0] * 5), (PACES[1] * PART * 2, PACES[1])],
    ids=["cheap", "dear", "very dear"],
)
async def test_a_crowd_is_written_to_as_often_as_its_part_of_the_time_allows(each: float, pace: float) -> None:
    fanout, said = Fanout(Processor(each)), list[tuple[int, int]]()
    crowd = [Recorder(said, number, fanout) for number in range(CROWD)]
    await asyncio.sleep(1)
    for _ in range(2):
        for sender in crowd:
            sender.event()
        await asyncio.sleep(pace * 0.49)
    assert said == [(number, 1) for number in range(CROWD)]
    await asyncio.sleep(pace * 0.04)
    assert said[CROWD:] == [(number, 1) for number in range(CROWD)]


@pytest.mark.looptime
async def test_a_crowd_gets_the_first_event_at_once_and_the_next_ones_together() -> None:
    fanout, said = Fanout(Processor(0)), list[tuple[int, int]]()
    crowd = [Recorder(said, number, fanout) for number in range(CROWD)]
    await asyncio.sleep(1)
    for sender in crowd:
        sender.event()
    await asyncio.sleep(0)
    assert said == [(number, 1) for number in range(CROWD)]
    said.clear()
    for _ in range(3):
        for sender in crowd:
            sender.event()
        await asyncio.sleep(PACES[0] / 4)
    assert said == []
    alone = Recorder(said, -1, fanout)  # was not served lately
    alone.event()
    await asyncio.sleep(0)
    assert said == [(-1, 1)]
    await asyncio.sleep(PACES[0] / 2)
    assert said[1:] == [(number, 3) for number in range(CROWD)]
    said.clear()
    await asyncio.sleep(PACES[0] * 1.01)
    crowd[0].event()
    await asyncio.sleep(0)
    assert said == [(0, 1)]

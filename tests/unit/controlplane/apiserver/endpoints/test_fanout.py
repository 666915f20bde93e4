"""Watches are served in turn, and nobody keeps the loop from the others."""

import asyncio

from controlplane.apiserver.endpoints.fanout import AT_ONCE, Fanout


class Recorder:
    def __init__(self, said: list[int], number: int) -> None:
        self._said, self._number = said, number

    def send(self) -> None:
        self._said.append(self._number)


async def test_all_are_served_in_the_order_in_which_they_became_ready() -> None:
    fanout, said = Fanout(), list[int]()
    for number in range(3 * AT_ONCE + 1):
        fanout.add(Recorder(said, number))
    assert said == []
    for turn in range(1, 4):
        await asyncio.sleep(0)
        assert said == list(range(turn * AT_ONCE))
    fanout.add(Recorder(said, -1))
    await asyncio.sleep(0)
    assert said == [*range(3 * AT_ONCE + 1), -1]
    fanout.add(Recorder(said, -2))
    await asyncio.sleep(0)
    assert said[-1] == -2


async def test_a_sender_that_becomes_ready_while_it_is_served_comes_again() -> None:
    fanout, said = Fanout(), list[int]()

    class Again(Recorder):
        def send(self) -> None:
            super().send()
            if len(said) < 5:
                fanout.add(self)

    fanout.add(Again(said, 1))
    for _ in range(6):
        await asyncio.sleep(0)
    assert said == [1] * 5

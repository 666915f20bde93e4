import asyncio

import pytest

from component.clock import FakeClock, timeout


async def test_sleepers_wake_in_order_of_their_time():
    clock, woken = FakeClock(), []

    async def sleeper(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((seconds, clock.monotonic()))

    async with asyncio.TaskGroup() as group:
        for seconds in (3, 1, 2):
            group.create_task(sleeper(seconds))
        await clock.advance(2.5)
        assert woken == [(1, 1.0), (2, 2.0)]
        await clock.advance(1)
    assert woken[-1] == (3, 3.0)


async def test_what_a_woken_task_arranges_happens_within_the_same_advance():
    clock, ticks = FakeClock(), []

    async def ticker() -> None:
        while True:
            await clock.sleep(1)
            ticks.append(clock.monotonic())

    task = asyncio.ensure_future(ticker())
    await clock.advance(3)
    task.cancel()
    assert ticks == [1.0, 2.0, 3.0]


async def test_wall_time_moves_with_elapsed_time():
    clock = FakeClock()
    before = clock.now()
    await clock.advance(90)
    assert (clock.now() - before).total_seconds() == 90


async def test_timeout_follows_the_given_clock():
    clock = FakeClock()

    async def wait() -> None:
        async with timeout(clock, 5):
            await asyncio.Event().wait()

    task = asyncio.ensure_future(wait())
    await clock.advance(4.9)
    assert not task.done()
    await clock.advance(0.2)
    with pytest.raises(TimeoutError):
        await task


async def test_timeout_that_does_not_fire_leaves_no_timer():
    clock = FakeClock()
    async with timeout(clock, 5):
        pass
    assert clock.next_due() is None


async def test_a_cancelled_sleeper_leaves_no_timer():
    clock = FakeClock()
    task = asyncio.ensure_future(clock.sleep(10))
    await clock.settle()
    task.cancel()
    await clock.settle()
    assert clock.next_due() is None

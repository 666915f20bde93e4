import asyncio
import random

import pytest

from component.clock import FakeClock
from component.tasks import Backoff, Supervisor, every, keep_running


def test_backoff_grows_to_its_cap_and_starts_over_after_a_quiet_time():
    clock = FakeClock()
    backoff = Backoff(1, 5, jitter=0, clock=clock)
    assert [backoff.step() for _ in range(4)] == [1, 2, 4, 5]
    clock._elapsed += 121
    assert backoff.step() == 1


def test_jitter_adds_up_to_its_share():
    backoff = Backoff(1, 1, jitter=0.5, clock=FakeClock(), rng=random.Random(1))
    assert all(1 <= backoff.step() <= 1.5 for _ in range(20))


async def test_a_kept_task_is_restarted_after_its_failure():
    clock, runs = FakeClock(), []

    async def work() -> None:
        runs.append(clock.monotonic())
        if len(runs) < 3:
            raise ValueError("no")

    task = asyncio.ensure_future(keep_running("work", work, clock=clock, backoff=Backoff(1, 8, jitter=0, clock=clock)))
    await clock.advance(10)
    assert task.done()
    assert runs == [0, 1, 3]


async def test_a_periodic_task_survives_its_errors():
    clock, calls = FakeClock(), []

    async def act() -> None:
        calls.append(clock.monotonic())
        raise RuntimeError("always")

    task = asyncio.ensure_future(every(clock, 10, act, name="act"))
    await clock.advance(25)
    task.cancel()
    assert calls == [0, 10, 20]


async def test_a_failing_child_brings_its_siblings_down():
    async def fail() -> None:
        raise ValueError("broken")

    cancelled = asyncio.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async def both() -> None:
        async with Supervisor(FakeClock()) as tasks:
            tasks.start("wait", wait())
            tasks.start("fail", fail())

    with pytest.raises(ExceptionGroup) as caught:
        await both()
    assert "broken" in str(caught.value.exceptions[0])
    assert cancelled.is_set()


async def test_stop_ends_the_block_without_an_error():
    async with Supervisor(FakeClock()) as tasks:
        task = tasks.start("wait", asyncio.Event().wait())
        tasks.stop()
    assert task.cancelled()
    assert task.get_name() == "wait"


@pytest.mark.parametrize("kept", [True, False])
async def test_what_fails_while_it_is_cancelled_is_not_begun_again(kept: bool):
    clock, runs = FakeClock(), 0

    async def work() -> None:
        nonlocal runs
        runs += 1
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            raise RuntimeError("invalid state") from None

    async with Supervisor(clock) as tasks:
        if kept:
            tasks.keep("work", work)
        else:
            tasks.every("work", 1, work)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        tasks.stop()
    await clock.advance(60)
    assert runs == 1

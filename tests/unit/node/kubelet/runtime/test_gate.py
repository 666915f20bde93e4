"""Bounded starts, containers first; creations that are not abandoned."""

import asyncio

import pytest

from component.clock import FakeClock
from node.kubelet.runtime.backoff import Backoff
from node.kubelet.runtime.gate import CONTAINER, SANDBOX, Gate, to_its_end


async def test_containers_go_before_sandboxes() -> None:
    gate, order = Gate(1), []
    release = asyncio.Event()

    async def hold() -> None:
        async with gate.passing(SANDBOX):
            await release.wait()

    async def pass_by(name: str, priority: int) -> None:
        async with gate.passing(priority):
            order.append(name)

    async with asyncio.TaskGroup() as group:
        group.create_task(hold())
        await asyncio.sleep(0)
        for name, priority in (("s1", SANDBOX), ("s2", SANDBOX), ("c1", CONTAINER)):
            group.create_task(pass_by(name, priority))
        await asyncio.sleep(0)
        release.set()
    assert order == ["c1", "s1", "s2"]


async def test_a_cancelled_waiter_frees_its_turn() -> None:
    gate = Gate(1)
    async with gate.passing(SANDBOX):
        waiter = asyncio.ensure_future(_pass(gate))
        await asyncio.sleep(0)
        waiter.cancel()
        await asyncio.wait({waiter})
    async with asyncio.timeout(1), gate.passing(SANDBOX):
        pass


async def _pass(gate: Gate) -> None:
    async with gate.passing(SANDBOX):
        pass


async def test_a_creation_comes_to_its_end_though_cancelled() -> None:
    done, started = [], asyncio.Event()

    async def create() -> str:
        started.set()
        await asyncio.sleep(0.02)
        done.append("made")
        return "id"

    task = asyncio.ensure_future(to_its_end(create()))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == ["made"]


async def test_failures_come_out_as_they_are() -> None:
    async def create() -> str:
        raise LookupError("no")

    with pytest.raises(LookupError, match="no"):
        await to_its_end(create())


async def test_back_off_doubles_and_is_forgotten() -> None:
    clock = FakeClock()
    backoff = Backoff(clock)
    assert backoff.remaining("k", clock.monotonic()) == 0
    waits = []
    for _ in range(7):
        backoff.next("k")
        waits.append(backoff.remaining("k", clock.monotonic()))
    assert waits == [10, 20, 40, 80, 160, 300, 300]
    await clock.advance(601)
    assert backoff.remaining("k", clock.monotonic()) == 0
    backoff.collect()
    backoff.next("k")
    assert backoff.delay("k") == 10

"""The shutdown manager over a machine of promises, in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from component.clock import FakeClock
from component.metrics import Registry
from node.kubelet.pod_status import Failure
from node.kubelet.shutdown.logind import LogindError
from node.kubelet.shutdown.manager import TERMINATED, ShutdownManager
from node.kubelet.shutdown.plan import Group
from tests.support.pod_workers import EventList

GROUPS = (Group(0, 20), Group(2_000_000_000, 10))


@dataclass
class Machine:
    """``delay``: what it allows; ``obstinate``: asking for more does not help."""

    delay: float = 60.0
    obstinate: bool = False
    locked: bool = False
    announced: asyncio.Queue[bool] = field(default_factory=asyncio.Queue)

    async def max_delay(self) -> float:
        return self.delay

    async def extend_delay(self, seconds: float) -> None:
        self.delay = self.delay if self.obstinate else seconds

    async def inhibit(self) -> None:
        self.locked = True

    def release(self) -> None:
        self.locked = False

    async def announcements(self) -> AsyncIterator[bool]:
        while True:
            yield await self.announced.get()


@dataclass
class Pods:
    """Named pods that end when a test says so."""

    active: list[dict[str, Any]]
    ended: list[tuple[str, int]] = field(default_factory=list)
    over: set[str] = field(default_factory=set)

    def active_pods(self) -> Sequence[dict[str, Any]]:
        return self.active

    def end(self, pod: Any, failure: Failure, grace: int) -> None:
        assert failure == TERMINATED
        self.ended.append((pod["metadata"]["name"], grace))

    def gone(self, pod: Any) -> bool:
        return pod["metadata"]["name"] in self.over


def pod(name: str, priority: int = 0, grace: int = 30) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"priority": priority, "terminationGracePeriodSeconds": grace}}


@dataclass
class Bench:
    machine: Machine
    pods: Pods
    clock: FakeClock
    manager: ShutdownManager
    events: EventList
    changes: list[bool]


@asynccontextmanager
async def running(machine: Machine, *listed: dict[str, Any]) -> AsyncIterator[Bench]:
    @asynccontextmanager
    async def connect() -> AsyncIterator[Machine]:
        yield machine

    clock, events, pods, changes = FakeClock(), EventList(), Pods(list(listed)), list[bool]()
    manager = ShutdownManager(connect, GROUPS, pods, clock, events, "n", Registry(), lambda: changes.append(manager.stopping))
    task = asyncio.create_task(manager.run())
    await clock.advance(0)
    try:
        yield Bench(machine, pods, clock, manager, events, changes)
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_ordinary_pods_end_first_then_critical_ones_then_the_machine_may_stop() -> None:
    async with running(Machine(), pod("web"), pod("dns", 2_000_000_000)) as bench:
        assert bench.machine.locked
        bench.machine.announced.put_nowait(True)
        await bench.clock.advance(1)
        assert bench.pods.ended == [("web", 20)]
        assert (bench.manager.stopping, bench.changes) == (True, [True])
        assert bench.events.seen == [("NodeShutdown", "Shutdown manager detected shutdown event")]
        bench.pods.over.add("web")
        await bench.clock.advance(1)
        assert bench.pods.ended == [("web", 20), ("dns", 10)]
        assert bench.machine.locked
        bench.pods.over.add("dns")
        await bench.clock.advance(1)
        assert not bench.machine.locked


async def test_pods_that_do_not_end_hold_the_machine_no_longer_than_promised() -> None:
    async with running(Machine(), pod("stubborn"), pod("dns", 2_000_000_000)) as bench:
        bench.machine.announced.put_nowait(True)
        await bench.clock.advance(1)
        await bench.clock.advance(21)
        assert bench.pods.ended == [("stubborn", 20), ("dns", 10)]
        await bench.clock.advance(11)
        assert not bench.machine.locked


async def test_a_cancelled_shutdown_leaves_the_node_in_service_and_locked() -> None:
    async with running(Machine(), pod("web")) as bench:
        bench.machine.announced.put_nowait(True)
        await bench.clock.advance(1)
        bench.machine.announced.put_nowait(False)
        await bench.clock.advance(1)
        assert (bench.manager.stopping, bench.changes) == (False, [True, False])
        assert bench.machine.locked


async def test_the_machine_is_asked_to_allow_more() -> None:
    async with running(Machine(delay=5.0)) as bench:
        assert (bench.machine.delay, bench.machine.locked) == (30.0, True)


async def test_a_machine_that_will_not_wait_is_an_error() -> None:
    machine = Machine(delay=5.0, obstinate=True)

    @asynccontextmanager
    async def connect() -> AsyncIterator[Machine]:
        yield machine

    clock = FakeClock()
    manager = ShutdownManager(connect, GROUPS, Pods([]), clock, EventList(), "n", Registry())
    task = asyncio.create_task(manager.run())
    await clock.advance(5)
    with pytest.raises(LogindError, match="at most, 30 s are needed"):
        await task

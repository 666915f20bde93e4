"""When an APIService is looked at again, and what is written of it: the loop around ``judge``, in virtual time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest

from apimachinery.meta import clone
from component.clock import FakeClock
from component.metrics import Registry
from controlplane.apiserver.aggregation.availability import Availability, Cluster
from controlplane.apiserver.aggregation.backends import Backend, Fetched, UnreachableError
from controlplane.apiserver.aggregation.services import APIServices
from controlplane.apiserver.storage.interface import StorageUnavailableError

NAME = "v1.things.example"


class Quiet:
    """A store of which nothing is heard."""

    async def watch(self, namespace: str, options: Any) -> "Quiet":
        return self

    async def batch(self) -> list[Any]:
        await asyncio.Event().wait()
        return []

    def close(self) -> None: ...


class World:
    """A Service, its server, and the APIService as it is stored."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.services = APIServices(Quiet())  # type: ignore[arg-type]
        self.status = 200  # of the server's answer; 0 for none
        self.asked: list[float] = []
        self.written: list[tuple[float, str]] = []
        self.broken = False  # the storage
        self.metrics = Registry(process=False)

    def register(self, **spec: Any) -> None:
        reference = {"namespace": "default", "name": "things", "port": 443}
        wanted = {
            "group": "things.example",
            "version": "v1",
            "service": reference,
            "groupPriorityMinimum": 1,
            "versionPriority": 1,
        }
        self.services.take([{"metadata": {"name": NAME}, "spec": {**wanted, **spec}}])

    async def lookup(self, resource: str, namespace: str, name: str) -> dict[str, Any] | None:
        return {"spec": {"type": "ExternalName", "externalName": "elsewhere"}}

    async def slices(self, namespace: str, name: str) -> Sequence[dict[str, Any]]:
        return ()

    async def unverified(self, service: Any) -> Backend:
        return Backend("10.0.0.1", 443, service.server_name, None)  # type: ignore[arg-type]

    async def get(self, backend: Backend, path: str, user: Any, headers: Any, limit: int) -> Fetched:
        self.asked.append(self.clock.monotonic())
        if not self.status:
            raise UnreachableError("nobody there")
        return Fetched(self.status, "", b"")

    async def write(self, name: str, change: Callable[[dict[str, Any]], Awaitable[dict[str, Any] | None]]) -> None:
        if self.broken:
            raise StorageUnavailableError("no leader")
        new = await change(clone(self.services.objects[name]))
        if new is not None:
            self.written.append((self.clock.monotonic(), new["status"]["conditions"][0]["reason"]))
            self.services.take([new])


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    cluster = Cluster(made.lookup, made.slices, Quiet(), Quiet())  # type: ignore[arg-type]
    loop = Availability(made.services, made, cluster, made.write, made.metrics, made.clock)  # type: ignore[arg-type]
    task = asyncio.create_task(loop.run())
    yield made
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_one_that_is_well_is_looked_at_every_thirty_seconds(world: World) -> None:
    world.register()
    await world.clock.advance(65)
    assert world.written == [(0.0, "Passed")]
    assert sorted(set(world.asked)) == [0.0, 30.0, 60.0]


async def test_one_that_fails_is_tried_again_soon_and_then_less_often(world: World) -> None:
    world.status = 0
    world.register()
    await world.clock.advance(1)
    assert world.written == [(0.0, "FailedDiscoveryCheck")]
    times = sorted(set(world.asked))
    assert times[:3] == pytest.approx([0.0, 0.005, 0.015])
    world.status = 200
    await world.clock.advance(2)
    assert [reason for _, reason in world.written] == ["FailedDiscoveryCheck", "Passed"]
    count = len(world.asked)
    await world.clock.advance(20)
    assert len(world.asked) == count


async def test_one_that_has_failed_all_day_is_still_looked_at(world: World) -> None:
    world.status = 0
    world.register()
    await world.clock.advance(12 * 3600)
    world.status = 200
    await world.clock.advance(30)
    assert [reason for _, reason in world.written] == ["FailedDiscoveryCheck", "Passed"]


async def test_another_specification_is_looked_at_at_once(world: World) -> None:
    world.register()
    await world.clock.advance(5)
    world.status = 500
    world.register(insecureSkipTLSVerify=True)
    await world.clock.advance(0)
    assert world.written[-1] == (5.0, "FailedDiscoveryCheck")


async def test_one_that_becomes_local_is_always_available(world: World) -> None:
    world.register()
    await world.clock.advance(1)
    world.register(service=None)
    await world.clock.advance(100)
    assert [reason for _, reason in world.written] == ["Passed", "Local"]
    assert max(world.asked) == 0.0
    assert b'aggregator_unavailable_apiservice{name="' not in world.metrics.expose()


async def test_a_storage_that_is_away_is_tried_again(world: World) -> None:
    world.broken = True
    world.register()
    await world.clock.advance(1)
    world.broken = False
    await world.clock.advance(2)
    assert [reason for _, reason in world.written] == ["Passed"]

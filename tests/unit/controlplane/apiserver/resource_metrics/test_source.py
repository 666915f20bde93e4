"""When kubelets are asked, and what becomes of those that do not answer. In virtual time."""

import asyncio
from collections.abc import Sequence

from component.clock import FakeClock
from controlplane.apiserver.resource_metrics.source import RESOLUTION, Source, Usage

TEXT = """node_cpu_usage_seconds_total {cpu}
node_memory_working_set_bytes 1024
container_cpu_usage_seconds_total{{container="c",namespace="ns",pod="{node}"}} {cpu}
container_memory_working_set_bytes{{container="c",namespace="ns",pod="{node}"}} 512
"""


class Nodes:
    """Each uses half a core."""

    def __init__(self, *names: str) -> None:
        self.clock = FakeClock()
        self.names = list(names)
        self.asked: list[str] = []
        self.down: set[str] = set()
        self.hanging: set[str] = set()
        self.source = Source(self.list, self.fetch, self.clock)

    async def list(self) -> Sequence[str]:
        return self.names

    async def fetch(self, name: str) -> str:
        self.asked.append(name)
        if name in self.down:
            raise OSError("connection refused")
        if name in self.hanging:
            await asyncio.Event().wait()
        return TEXT.format(cpu=self.clock.now().timestamp() / 2, node=name)

    async def usage(self) -> Usage:
        task = asyncio.create_task(self.source.usage())
        for _ in range(100):
            await self.clock.advance(0.1)
            if task.done():
                break
        return task.result()


async def test_the_first_question_is_answered_after_a_second() -> None:
    nodes = Nodes("a", "b")

    usage = await nodes.usage()

    assert sorted(usage.nodes) == ["a", "b"]
    assert abs(usage.nodes["a"].cpu - 500_000_000) < 10_000
    assert usage.nodes["a"].memory == 1024
    assert sorted(usage.containers) == [("ns", "a", "c"), ("ns", "b", "c")]
    assert sorted(nodes.asked) == ["a", "a", "b", "b"]


async def test_a_fresh_answer_is_not_asked_for_again() -> None:
    nodes = Nodes("a")
    await nodes.usage()
    await nodes.usage()
    assert len(nodes.asked) == 2
    await nodes.clock.advance(RESOLUTION)
    usage = await nodes.usage()
    assert len(nodes.asked) == 3, "there is one to compare with"
    assert usage.nodes["a"].window >= RESOLUTION
    await nodes.clock.advance(600)
    usage = await nodes.usage()
    assert len(nodes.asked) == 5
    assert usage.nodes["a"].window < 2, "not an average of ten minutes"


async def test_many_who_ask_at_once_share_one_round() -> None:
    nodes = Nodes("a")
    tasks = [asyncio.create_task(nodes.source.usage()) for _ in range(20)]
    for _ in range(20):
        await nodes.clock.advance(0.1)
    assert all(task.result().nodes for task in tasks)
    assert len(nodes.asked) == 2


async def test_a_node_that_is_down_or_hangs_costs_only_itself() -> None:
    nodes = Nodes("a", "down", "hanging")
    nodes.down, nodes.hanging = {"down"}, {"hanging"}

    usage = await nodes.usage()
    assert list(usage.nodes) == ["a"]
    nodes.down.clear()
    nodes.hanging.clear()
    await nodes.clock.advance(RESOLUTION)
    assert sorted((await nodes.usage()).nodes) == ["a", "down", "hanging"]


async def test_a_node_that_goes_is_forgotten() -> None:
    nodes = Nodes("a", "b")
    await nodes.usage()
    nodes.names = ["a"]
    await nodes.clock.advance(RESOLUTION)
    assert list((await nodes.usage()).nodes) == ["a"]

import asyncio
from typing import Any

from apimachinery.meta import Object
from component.clock import FakeClock
from controlplane.scheduler.framework.events import Action, ClusterEvent, Cure, On
from controlplane.scheduler.plugins.scheduling_gates import SchedulingGates
from controlplane.scheduler.queue import SchedulingQueue
from tests.support.scheduling import make_node, make_pod

CURES = {"Fit": [Cure(On.ASSIGNED_POD, Action.DELETE)], "Taints": [Cure(On.NODE, Action.UPDATE_TAINTS, lambda pod, event: True)]}
ROOM = ClusterEvent(On.ASSIGNED_POD, Action.DELETE, make_pod(node="n"))


def queue(clock: FakeClock | None = None) -> SchedulingQueue:
    return SchedulingQueue(clock or FakeClock(), CURES, [SchedulingGates().pre_enqueue])


def pod(name: str, **more: Any) -> Object:
    return make_pod(name, **more)


async def popped(held: SchedulingQueue) -> str:
    """The next pod's name, or an empty string if the scheduler would have to wait."""
    try:
        async with asyncio.timeout(0):
            return (await held.pop()).info.name
    except TimeoutError:
        return ""


async def test_highest_priority_first_then_first_come() -> None:
    clock = FakeClock()
    held = queue(clock)
    for name, priority in (("a", 0), ("b", 5), ("c", 0), ("d", 5)):
        held.add(pod(name, priority=priority))
        await clock.advance(1)
    assert [await popped(held) for _ in range(5)] == ["b", "d", "a", "c", ""]


async def test_a_refused_pod_waits_for_what_its_plugin_named() -> None:
    held = queue()
    held.add(pod("a"))
    taken = await held.pop()
    held.refused(taken, {"Fit"})
    assert held.happened(ClusterEvent(On.NODE, Action.UPDATE_TAINTS, make_node("n"), make_node("n"))) == 0
    assert await popped(held) == ""
    assert held.happened(ROOM) == 1
    # Nothing else to do: the pod is tried before its pause is over.
    assert await popped(held) == "a"


async def test_the_longest_wait_is_five_minutes() -> None:
    clock = FakeClock()
    held = queue(clock)
    held.add(pod("a"))
    held.refused(await held.pop(), {"Fit"})
    await clock.advance(299)
    assert await popped(held) == ""
    await clock.advance(1.1)
    assert await popped(held) == "a"


async def test_errors_back_off_twice_as_long_each_time() -> None:
    clock = FakeClock()
    held = queue(clock)
    held.add(pod("a"))
    for pause in (1, 2, 4, 8, 10, 10):
        held.failed(await held.pop())
        await clock.advance(pause - 0.5)
        assert await popped(held) == ""
        await clock.advance(0.6)
    assert await popped(held) == "a"


async def test_gated_pods_are_not_tried_until_the_gates_are_gone() -> None:
    held = queue()
    gated = pod("a", schedulingGates=[{"name": "x/y"}])
    held.add(gated)
    held.happened(ROOM)
    assert await popped(held) == ""
    assert held.sizes()["gated"] == 1
    spec = {key: value for key, value in gated["spec"].items() if key != "schedulingGates"}
    held.update(gated, {**gated, "spec": spec})
    assert await popped(held) == "a"


async def test_status_updates_wake_nobody_but_a_changed_spec_does() -> None:
    held = queue()
    first = pod("a")
    held.add(first)
    held.refused(await held.pop(), {"Fit"})
    held.update(first, {**first, "status": {"conditions": []}})
    assert await popped(held) == ""
    held.update(first, {**first, "spec": {**first["spec"], "tolerations": [{"operator": "Exists"}]}})
    assert await popped(held) == "a"


async def test_a_deleted_pod_is_forgotten_wherever_it_is() -> None:
    held = queue()
    first, second = pod("a"), pod("b")
    held.add(first)
    held.add(second)
    taken = await held.pop()
    held.delete(first["metadata"]["uid"])
    held.delete(second["metadata"]["uid"])
    held.refused(taken, {"Fit"})
    assert held.happened(ROOM) == 0
    assert await popped(held) == ""
    assert len(held) == 0


async def test_a_waiting_scheduler_is_woken() -> None:
    held = queue()
    waiting = asyncio.ensure_future(held.pop())
    await asyncio.sleep(0)
    held.add(pod("a"))
    assert (await waiting).info.name == "a"
